//! The servers and what befalls them, who believes, and what happened.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::Lease;
use lockkeeper_core::store::{Call, Reply, StoreError};
use lockkeeper_memory::MemoryStore;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::plan::{APART, Chances, Disaster, MAIN, Plan, SERVERS};
use crate::simulation::quorums::Quorums;
use crate::simulation::trace::{Trace, short};
use crate::simulation::{Outcome, Violation};

/// The time when a history begins, µs since the Unix epoch.
const BEGINNING: i64 = 1_700_000_000_000_000;

/// See the module.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) servers: Vec<MemoryStore>,
    began: Instant,
    /// When the storm is over.
    pub(super) calm: Instant,
    /// Rings at the first violation.
    pub(super) alarm: Notify,
    state: Mutex<State>,
}

struct State {
    trace: Trace,
    requests: u64,
    grants: u64,
    violation: Option<Violation>,
    machines: [Machine; SERVERS],
    /// A server stood still for so long that a leave may have been given up: its claim ends by its ttl.
    stood_long: bool,
    quorums: Quorums,
}

/// What is wrong with a server.
#[derive(Clone, Copy)]
struct Machine {
    down: bool,
    stopped: Instant,
    /// Since when it stands still, or stood still the last time.
    stands_since: Instant,
    /// How far its clock is ahead, ms.
    ahead: u64,
    /// When it last stepped forward.
    stepped: Option<Instant>,
}

impl World {
    pub(super) fn new(plan: Plan, keep_lines: bool) -> Arc<Self> {
        let began = Instant::now();
        let servers = plan.ahead.map(|ahead| {
            let server = MemoryStore::new();
            server.set_clock(BEGINNING + i64::try_from(ahead * 1_000).unwrap_or(0));
            server
        });
        let machines = plan.ahead.map(|ahead| Machine {
            down: false,
            stopped: began,
            stands_since: began,
            ahead,
            stepped: None,
        });
        Arc::new(Self {
            servers: servers.into(),
            began,
            calm: began + plan.storm,
            alarm: Notify::new(),
            state: Mutex::new(State {
                trace: Trace::new(keep_lines),
                requests: 0,
                grants: 0,
                violation: None,
                machines,
                stood_long: false,
                quorums: Quorums::new(SERVERS),
            }),
            plan,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, event: fmt::Arguments<'_>) {
        let at = self.began.elapsed();
        self.state().trace.tell(at, event);
    }

    pub(super) fn violate(&self, violation: Violation) {
        self.tell(format_args!("{}: {}", violation.rule, violation.what));
        self.state().violation.get_or_insert(violation);
        self.alarm.notify_one();
    }

    pub(super) fn outcome(&self) -> Outcome {
        let mut state = self.state();
        Outcome {
            seed: self.plan.seed,
            hash: state.trace.hash(),
            events: state.trace.events(),
            requests: state.requests,
            grants: state.grants,
            violation: state.violation.clone(),
            lines: state.trace.take_lines(),
        }
    }

    /// What may happen to a request that is sent now.
    pub(super) fn chances(&self) -> Chances {
        if Instant::now() < self.calm {
            self.plan.chances
        } else {
            Chances::default()
        }
    }

    pub(super) fn is_down(&self, place: usize) -> bool {
        self.state().machines[place].down
    }

    /// Waits until the server goes on if it stands still; false if it is down.
    pub(super) async fn reached(&self, place: usize) -> bool {
        loop {
            let Machine { down, stopped, .. } = self.state().machines[place];
            if down {
                return false;
            }
            if stopped <= Instant::now() {
                return true;
            }
            sleep_until(stopped).await;
        }
    }

    /// The server is up, without its data.
    pub(super) fn restart(&self, place: usize) {
        self.tell(format_args!("s{place} is up, empty"));
        self.servers[place].restart_empty();
        self.state().machines[place].down = false;
    }

    /// A request was executed.
    pub(super) fn executed(
        &self,
        process: usize,
        place: usize,
        call: &Call,
        reply: &Result<Reply, StoreError>,
    ) {
        let Call { item, .. } = call;
        let claim = item.args.first().map_or("", String::as_str);
        let name = item.script.name;
        let fields = reply.as_ref().map(|reply| (reply.status(), reply.fields()));
        self.tell(format_args!(
            "p{process} {name} {} on s{place}: {fields:?}",
            short(claim)
        ));
        let mut state = self.state();
        state.requests += 1;
        if let Ok(reply) = reply {
            state.quorums.answered(place, call, reply);
        }
    }

    /// A process was granted the lock.
    pub(super) fn granted(&self, process: usize, lease: &Lease) {
        let token = lease.fencing_token().get();
        self.tell(format_args!("p{process} holds with {token}: {lease:?}"));
        let told = {
            let mut state = self.state();
            state.grants += 1;
            state.quorums.granted(process, lease)
        };
        if let Err(violation) = told {
            self.violate(violation);
        }
    }

    /// The first server on which anybody holds, and who.
    pub(super) fn held(&self) -> Option<String> {
        let mut servers = self.servers.iter().enumerate();
        servers.find_map(|(place, server)| {
            let holder = server.execute(&["GET", MAIN]).ok()?;
            Some(format!("{} on s{place}", short(holder.as_str()?)))
        })
    }

    /// Every key there is.
    pub(super) fn keys(&self) -> Vec<String> {
        self.servers.iter().flat_map(MemoryStore::keys).collect()
    }

    /// Befalls one server after the other.
    pub(super) async fn weather(self: Arc<Self>, mut random: Rng) {
        while !self.plan.disasters.is_empty() && Instant::now() < self.calm {
            sleep(self.plan.interval.mul_f64(random.f64() * 2.0)).await;
            let place = random.usize(..SERVERS);
            let disaster = self.plan.disasters[random.usize(..self.plan.disasters.len())];
            let until = self
                .calm
                .min(Instant::now() + self.plan.ttl.mul_f64(random.f64() * 1.5));
            self.tell(format_args!("{disaster:?} befalls s{place}"));
            match disaster {
                Disaster::Kill => {
                    self.state().machines[place].down = true;
                    let world = Arc::clone(&self);
                    tokio::spawn(async move {
                        sleep_until(until).await;
                        if world.is_down(place) {
                            world.restart(place);
                        }
                    });
                }
                Disaster::Stop => self.stop(place, until),
                Disaster::ClockBack => self.step_back(place, random.u64(..APART)),
                Disaster::ClockForward => self.step_forward(place),
                Disaster::Mute => self.servers[place].mute(random.bool()),
            }
        }
    }

    fn stop(&self, place: usize, until: Instant) {
        let mut state = self.state();
        let machine = &mut state.machines[place];
        if machine.stopped <= Instant::now() {
            machine.stands_since = Instant::now();
        }
        machine.stopped = until;
        state.stood_long |= until - state.machines[place].stands_since >= self.plan.ttl / 2;
    }

    /// How long after the storm what nobody holds is gone.
    pub(super) fn settled(&self) -> Duration {
        let given_up = if self.state().stood_long {
            self.plan.ttl
        } else {
            Duration::ZERO
        };
        self.plan.settled() + given_up
    }

    /// Everything is well from now on.
    pub(super) fn fair_weather(&self) {
        self.tell(format_args!("fair weather"));
        for server in &self.servers {
            server.mute(false);
        }
        for place in (0..SERVERS).filter(|place| self.is_down(*place)) {
            self.restart(place);
        }
    }

    /// The clock steps back, and not so far that it would be behind the time.
    fn step_back(&self, place: usize, millis: u64) {
        let machine = &mut self.state().machines[place];
        let step = millis.min(machine.ahead);
        machine.ahead -= step;
        self.servers[place].step_clock(-i64::try_from(step).unwrap_or(0));
    }

    /// The clock steps forward if it has not within the longest lease, and is not too far from the others.
    fn step_forward(&self, place: usize) {
        let machine = &mut self.state().machines[place];
        let step = self.plan.creep();
        let millis = u64::try_from(step.as_millis()).unwrap_or(0);
        let lately = |stepped: Instant| stepped.elapsed() <= self.plan.ttl + Duration::from_secs(1);
        if machine.ahead + millis < APART && !machine.stepped.is_some_and(lately) {
            machine.ahead += millis;
            machine.stepped = Some(Instant::now());
            self.servers[place].step_clock(i64::try_from(millis).unwrap_or(0));
        }
    }
}
