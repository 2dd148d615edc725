//! The state that all parts of one history share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TokioClock};
use lockkeeper_core::mutants;
use lockkeeper_core::store::{Call, Reply, Store as _, StoreError};
use lockkeeper_memory::MemoryStore;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::checks::Checks;
use super::ledger::Ledger;
use super::network::Network;
use super::options::Options;
use super::place::Place;
use super::plan::{Chances, Plan};
use super::record::{Heard, Record};
use super::slip::Slipping;
use super::trace::{Trace, Violation};
use crate::patch::Patch;

/// Where the servers' clocks begin, µs since the Unix epoch: an arbitrary but fixed time.
const BEGINNING: i64 = 1_700_000_000_000_000;

/// The shared state. One thread runs everything, so no lock here is ever contended.
#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) servers: Vec<MemoryStore>,
    places: Vec<Place>,
    /// The mistake in one script that the servers run.
    patch: Option<Patch>,
    pub(super) clock: Arc<dyn Clock>,
    /// Notified when an action is put on the agenda.
    pub(super) planned: Notify,
    /// Notified at the first violation.
    pub(super) alarm: Notify,
    beginning: Instant,
    trace: Mutex<Trace>,
    network: Mutex<Network>,
    checks: Mutex<Checks>,
    course: Mutex<Course>,
    /// What each client's observer was told.
    ledgers: Mutex<Vec<Arc<Ledger>>>,
    /// `None`: it is not wanted.
    record: Option<Mutex<Record>>,
    /// The planted mistake, if any.
    pub(super) slipping: Option<Mutex<Slipping>>,
    /// Notified when a call is sent.
    pub(super) sending: Notify,
}

/// How far the history has come.
#[derive(Debug, Clone, Copy, Default)]
struct Course {
    /// Since when, or from when on, nothing goes wrong.
    calm: Option<Duration>,
    /// Whether clients begin nothing new.
    ending: bool,
    requests: u64,
    /// How many scripts have run that the checkers have not seen yet: the reply comes a few polls after a message.
    unheard: u32,
    /// How far the servers' clocks have run ahead, ms.
    ahead: i64,
}

/// See [`World::check_at_end`].
pub(super) struct CheckAtEnd<'a, F: FnMut(&mut Checks)> {
    world: &'a World,
    tell: F,
}

impl<F: FnMut(&mut Checks)> Drop for CheckAtEnd<'_, F> {
    fn drop(&mut self) {
        self.world.check(&mut self.tell);
    }
}

impl World {
    pub(super) fn new(plan: Plan, places: Vec<Place>, options: Options) -> Arc<Self> {
        let servers = plan.ahead.iter().map(|ahead| {
            let server = MemoryStore::new();
            server.set_clock(BEGINNING + 1_000 * ahead);
            server
        });
        Arc::new(Self {
            clock: Arc::new(TokioClock::new()),
            planned: Notify::new(),
            alarm: Notify::new(),
            beginning: Instant::now(),
            trace: Mutex::new(Trace::new(options.keep_lines)),
            network: Mutex::new(Network::new(&plan)),
            checks: Mutex::new(Checks::new(places.clone(), &plan)),
            servers: servers.collect(),
            places,
            course: Mutex::default(),
            ledgers: Mutex::default(),
            plan,
            patch: options.patch,
            slipping: options.slip.map(Slipping::new).map(Mutex::new),
            sending: Notify::new(),
            record: options.record.then(Mutex::default),
        })
    }

    /// Makes a server run a script, with the patch if there is one for it.
    pub(super) async fn serve(&self, place: usize, call: &Call) -> Result<Reply, StoreError> {
        self.course().unheard += 1;
        let reply = self.run(place, call).await;
        self.course().unheard -= 1;
        reply
    }

    async fn run(&self, place: usize, call: &Call) -> Result<Reply, StoreError> {
        let server = &self.servers[place];
        let patched = self
            .patch
            .as_ref()
            .and_then(|patch| patch.source(call.item.script));
        let Some(source) = patched else {
            return server.call(call.clone()).await;
        };
        let (keys, request) = (call.item.keys.len().to_string(), call.request.to_string());
        let mut command = vec!["EVAL", source, &keys];
        command.extend(call.item.keys.iter());
        command.push(&request);
        command.extend(call.item.args.iter());
        let value = server.execute(&command)?;
        Reply::read(call.request, value)
            .map_err(|bad| StoreError::unknown(bad.to_string()).with_source(bad))
    }

    pub(super) fn now(&self) -> Duration {
        self.beginning.elapsed()
    }

    pub(super) fn instant(&self, at: Duration) -> Instant {
        self.beginning + at
    }

    /// A ledger for a new client.
    pub(super) fn ledger(&self) -> Arc<Ledger> {
        let ledger = Arc::<Ledger>::default();
        self.ledgers.lock().push(Arc::clone(&ledger));
        ledger
    }

    /// A wrong event of an observer, or one that is missing although everything has ended. Not checked when a deliberate
    /// mistake is active: that must show by the rule that it breaks.
    pub(super) fn mistold(&self) -> Option<String> {
        if self.patch.is_some() || mutants::is_any_active() {
            return None;
        }
        let ledgers = self.ledgers.lock();
        ledgers.iter().find_map(|ledger| ledger.mistake())
    }

    /// Adds to the record, if there is one.
    pub(super) fn record<T>(&self, add: impl FnOnce(&mut Record) -> T) -> Option<T> {
        self.record.as_ref().map(|record| add(&mut record.lock()))
    }

    /// Notes that a client heard something.
    pub(super) fn heard(&self, link: usize, what: Heard) {
        let now = self.now();
        self.record(|record| record.heard.push((link, now, what)));
    }

    pub(super) fn trace(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock()
    }

    pub(super) fn tell(&self, event: fmt::Arguments<'_>) {
        let now = self.now();
        self.trace().tell(now, event);
    }

    pub(super) fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock()
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock()
    }

    /// Reports to the checkers when what it returns is dropped.
    pub(super) fn check_at_end<F: FnMut(&mut Checks)>(&self, tell: F) -> CheckAtEnd<'_, F> {
        CheckAtEnd { world: self, tell }
    }

    /// Reports to the checkers, and ends the history at a violation.
    pub(super) fn check<T>(&self, tell: impl FnOnce(&mut Checks) -> T) -> T {
        let mut checks = self.checks.lock();
        let before = checks.violation().is_some();
        let result = tell(&mut checks);
        if !before && let Some(violation) = checks.violation() {
            let Violation { rule, what } = violation;
            self.tell(format_args!("VIOLATION {rule}: {what}"));
            self.alarm.notify_one();
        }
        result
    }

    pub(super) fn violate(&self, rule: &'static str, what: String) {
        self.check(|checks| checks.violate(rule, what));
    }

    pub(super) fn violation(&self) -> Option<Violation> {
        self.check(|checks| checks.violation().cloned())
    }

    /// The names in the history.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Lets the checkers examine valid leases, and the servers for which `has_changed` is true; in the calm, all servers.
    pub(super) fn look(&self, has_changed: impl Fn(usize) -> bool) {
        let (now, calm) = (self.now(), self.course().calm);
        let looks = |server| calm.is_some() || has_changed(server);
        let is_known = self.course().unheard == 0;
        self.check(|checks| {
            checks.look(now);
            if is_known {
                checks.look_at_servers(&self.servers, looks, now, calm);
            }
        });
    }

    /// The claims that hold a name on its server.
    pub(super) fn holders(&self, name: usize) -> Vec<String> {
        self.check(|checks| checks.holders(&self.servers, name))
    }

    /// Whether nothing has gone wrong since `when`.
    pub(super) fn is_calm_since(&self, when: Duration) -> bool {
        self.course().calm.is_some_and(|calm| when >= calm)
    }

    /// Whether the storm is over.
    pub(super) fn is_healed(&self) -> bool {
        self.course().calm.is_some()
    }

    /// Nothing goes wrong from `when` on, or from a later time if one was set before.
    pub(super) fn calm_from(&self, when: Duration) {
        let mut course = self.course();
        course.calm = course.calm.max(Some(when));
    }

    /// Ends all faults of requests and messages.
    pub(super) fn heal(&self) {
        self.network().chances = Chances::default();
    }

    pub(super) fn end(&self) {
        self.course().ending = true;
    }

    pub(super) fn is_ending(&self) -> bool {
        self.course().ending
    }

    /// Advances the servers' clocks as planned.
    pub(super) fn drift(&self) {
        let ahead = self.plan.drift(self.now());
        let ahead = i64::try_from(ahead.as_millis()).unwrap_or(0);
        let before = std::mem::replace(&mut self.course().ahead, ahead);
        if ahead > before {
            for server in &self.servers {
                server.step_clock(ahead - before);
            }
        }
    }

    pub(super) fn count_request(&self) {
        self.course().requests += 1;
    }

    pub(super) fn requests(&self) -> u64 {
        self.course().requests
    }
}
