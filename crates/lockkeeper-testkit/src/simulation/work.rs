//! The tasks of a host: acquire one name, several at once or a Redlock, in every possible way; hold, check, write, nest;
//! release in every possible way, or stop halfway. At the end they take everything once more.

mod request;

use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Acquire, Error, Lease, LeaseState, LossReason, Owner, Released, Tries};
use lockkeeper_core::Hold;
use lockkeeper_once::ByHand;
use tokio::time::{sleep, timeout};

use super::beyond::Beyond;
use super::host::{Closed, Host, Wish, word};
use super::workload::Workload;
use super::world::World;
use crate::gated::drop_after;
use crate::kinds::{Converted, Held, convert, reenter};
use request::{Aim, Request};

/// One task of a host.
pub(super) struct Worker {
    workload: Workload,
    host: Host,
    /// The number of names that are not parts of a Redlock.
    names: usize,
    /// The owners that several tasks of the host share, by server.
    owners: Vec<Owner>,
    random: Rng,
}

/// What is known about a hold when it begins.
#[derive(Debug, Clone, Copy)]
struct Kept<'a> {
    aim: Aim,
    /// The numbers of the names that are held for reading.
    reads: &'a [usize],
    granted: Duration,
    /// It is renewed without limit.
    steady: bool,
    /// Other tasks use the same owner.
    shared: bool,
    /// It is held until it is lost, and beyond.
    to_the_end: bool,
    /// The run of work that it does, for work that is done once.
    work: Option<&'a ByHand>,
}

type Turned<T = ()> = Result<T, Closed>;

impl Worker {
    pub(super) fn new(workload: Workload, host: Host, owners: Vec<Owner>, random: Rng) -> Self {
        Self {
            workload,
            names: host.world.plan.names,
            host,
            owners,
            random,
        }
    }

    /// Works until the history ends or the client is closed.
    pub(super) async fn run(mut self) {
        // A closed client leaves nothing to do.
        let _ = self.work().await;
    }

    async fn work(&mut self) -> Turned {
        while !self.world().is_ending() {
            let aim = self.aim();
            self.turn(aim).await?;
            let pause = self.spell(0.12);
            sleep(pause).await;
        }
        if self.workload == Workload::Mixed {
            self.take(Aim::Several).await?;
        }
        if !self.workload.is_of_one_server() {
            self.take(Aim::Majority).await?;
        }
        Ok(())
    }

    fn aim(&mut self) -> Aim {
        let way = match self.workload {
            Workload::Redlock => return Aim::Majority,
            Workload::Mixed => self.random.u8(..8),
            _ => 0,
        };
        match way {
            0..4 => Aim::One(self.random.usize(..self.names)),
            4..6 => Aim::Several,
            _ => Aim::Majority,
        }
    }

    /// Makes one acquisition and uses its result.
    async fn turn(&mut self, aim: Aim) -> Turned {
        let single = matches!(aim, Aim::One(_));
        let shared = self.random.u8(..3) == 0 && single;
        let way = self.random.u8(..12);
        let began = self.world().now();
        let renewed = self.random.u8(..6) != 0;
        let limited = self.random.u8(..10) == 0;
        let tries = way < 2;
        let acquire =
            |request: &Request| Acquire::<Hold>::new(request.plan.clone()).owner(&request.owner);
        let (mut request, acquiring) = if tries {
            (self.request(aim, shared, true), None)
        } else {
            let queues =
                matches!(aim, Aim::One(name) if self.world().places()[name].model.waits_in_a_queue);
            let short = queues && self.random.u8(..6) == 0;
            let max_queue = short.then(|| self.random.u64(1..=2));
            let terms = self.terms(renewed, limited, matches!(way, 2..=3), max_queue);
            let request = self.request(aim, shared, false);
            let acquiring = request.as_ref().ok().map(|it| terms(acquire(it)));
            (request, acquiring)
        };
        let request = match &mut request {
            Ok(request) => request,
            Err(error) => return self.judge(aim, error, began),
        };
        let asked = match (way, acquiring.map(IntoFuture::into_future)) {
            (_, None) => {
                let trying = Acquire::<Hold, Tries>::new(request.plan.clone());
                trying.owner(&request.owner).await
            }
            (4..=6, Some(asking)) => {
                let polls = self.random.usize(1..if single { 8 } else { 12 });
                drop_after(asking, polls).await.transpose()
            }
            (7, Some(asking)) => {
                let patience = self.spell(0.6);
                timeout(patience, asking).await.ok().transpose()
            }
            (_, Some(asking)) => asking.await.map(Some),
        };
        request.wishes.iter_mut().for_each(Wish::waited);
        match asked {
            Ok(Some(hold)) => {
                let kept = Kept {
                    aim,
                    reads: &request.reads,
                    granted: self.world().now(),
                    steady: tries || renewed && !limited,
                    shared,
                    to_the_end: !tries && !renewed && self.random.bool(),
                    work: request.work.as_ref(),
                };
                self.keep(kept, hold).await
            }
            Ok(None) => Ok(()),
            Err(error) => self.judge(aim, &error, began),
        }
    }

    /// Holds for some time and releases.
    async fn keep(&mut self, kept: Kept<'_>, first: Hold) -> Turned {
        let reads = matches!(kept.aim, Aim::One(_)) && !kept.reads.is_empty();
        let first = Held { hold: first, reads };
        self.given(kept, &first);
        let mut guards = vec![first];
        let mut alone = !kept.shared;
        if kept.to_the_end
            && !self.world().is_ending()
            && let Some(guard) = guards.first()
        {
            guard.hold.lost().await;
            // Long enough for the lease to end on the server too, without a release and so without a message to waiters.
            let spell = self.spell(0.1);
            sleep(self.world().plan.timeout() + spell).await;
        }
        for _ in 0..self.random.usize(..5) {
            alone &= self.step(kept, &mut guards).await?;
            if guards.is_empty() {
                break;
            }
            for guard in &guards {
                if self.world().plan.beyond == Some(Beyond::LateWrite) {
                    if guard.hold.ensure_held().is_err() {
                        continue;
                    }
                    let spell = self.spell(1.5);
                    sleep(spell).await;
                }
                for (name, lease, reads) in self.leases(kept, guard) {
                    self.world()
                        .check(|checks| checks.touch(name, &lease, reads));
                }
            }
        }
        let lost = matches!(
            guards.first().map(|guard| guard.hold.state()),
            Some(LeaseState::Lost(LossReason::Expired | LossReason::Gone))
        );
        if lost {
            self.lost(kept);
        }
        alone &= guards.len() == 1;
        while !guards.is_empty() {
            let guard = guards.swap_remove(self.random.usize(..guards.len()));
            self.finish(kept.work, &guard.hold);
            self.release(kept.aim, guard.hold, alone).await?;
        }
        Ok(())
    }

    /// Takes one random step as a holder, with the last of its guards. Returns `false` if a claim may be left on the server.
    async fn step(&mut self, kept: Kept<'_>, guards: &mut Vec<Held>) -> Turned<bool> {
        let Some(guard) = guards.last() else {
            return Ok(true);
        };
        let model = match kept.aim {
            Aim::One(name) => Some(self.host.world.places()[name].model),
            _ => None,
        };
        match (self.random.u8(..10), model) {
            (0..=1, Some(_)) => {
                let long = self.random.u8(..8) == 0 && !self.world().is_ending();
                let spell = self.spell(if long { 1.8 } else { 0.15 });
                sleep(spell).await;
            }
            (2..=3, _) => {
                let spell = self.spell(0.1);
                // Its error says that the lease has ended; the next step finds that out by itself.
                let _ = guard.hold.run(sleep(spell)).await;
            }
            (4..=6, _) => {
                let told = word(&guard.hold.verify().await);
                self.tell(format_args!("verifies: {told}"));
            }
            (7..=8, Some(model)) => {
                if let Some(guard) = guards.pop() {
                    let (guard, again) = reenter(&model, guard, &mut self.random).await;
                    guards.push(guard);
                    if let Ok(Some(again)) = again {
                        self.given(kept, &again);
                        guards.push(again);
                    }
                }
            }
            (_, Some(model)) if model.has_modes() => return self.change(kept, guards).await,
            (_, Some(_)) => tokio::task::yield_now().await,
            (_, None) => {
                let spell = self.spell(0.2);
                if timeout(spell, guard.hold.lost()).await.is_ok() {
                    self.look_for_parts_that_go_on(&guard.hold).await;
                }
            }
        }
        Ok(true)
    }

    /// After the loss of one part, or of too many, the whole grant must have ended.
    async fn look_for_parts_that_go_on(&self, hold: &Hold) {
        sleep(Duration::from_millis(1)).await;
        let held = |lease: &&Lease| lease.ensure_held().is_ok();
        if let Some(lease) = hold.parts().iter().find(held) {
            let what = format!("{} after the loss of another", lease.name());
            self.world().violate("a lease that goes on", what);
        }
    }

    /// Checks whether a lease may have been lost.
    fn lost(&self, kept: Kept<'_>) {
        if kept.steady && !kept.shared && self.world().is_calm_since(kept.granted) {
            let what = format!("host {} lost {:?}", self.host.links[0], kept.aim);
            self.world().violate("lost without cause", what);
        }
    }

    /// Converts the last guard, or gives that up halfway. Returns `false` if a claim may be left on the server.
    async fn change(&mut self, kept: Kept<'_>, guards: &mut Vec<Held>) -> Turned<bool> {
        let Some(guard) = guards.pop() else {
            return Ok(true);
        };
        let began = self.world().now();
        let changing = convert(guard);
        let outcome = if self.random.u8(..4) == 0 {
            drop_after(changing, self.random.usize(1..6)).await
        } else {
            Some(changing.await)
        };
        match outcome {
            None => {
                self.tell(format_args!("gives a change up"));
                Ok(false)
            }
            Some(Ok(Converted::Refused(guard))) => {
                self.tell(format_args!("is refused a change"));
                guards.push(guard);
                Ok(true)
            }
            Some(Ok(Converted::Done(guard))) => {
                self.given(kept, &guard);
                guards.push(guard);
                Ok(true)
            }
            Some(Err(error)) => {
                if matches!(error, Error::Lost { .. } | Error::NotHeld { .. }) {
                    self.lost(kept);
                }
                self.judge(kept.aim, &error, began).map(|()| false)
            }
        }
    }

    /// Most work succeeds. Its release then stores the token as the result, which is unique.
    fn finish(&mut self, work: Option<&ByHand>, hold: &Hold) {
        let Some(work) = work.filter(|_| self.random.u8(..4) > 0) else {
            return;
        };
        let token = hold.fencing_token();
        self.tell(format_args!("has done its work by {token}"));
        // The only possible error is that the result is too large.
        let _ = work.store(token, token.to_string().as_bytes());
    }

    async fn release(&mut self, aim: Aim, guard: Hold, alone: bool) -> Turned {
        let owner = format!("{}/", guard.owner());
        let began = self.world().now();
        match self.random.u8(..10) {
            0..=4 => {
                let outcome = guard.release().await;
                self.tell(format_args!("releases: {}", word(&outcome)));
                if let (Ok(Released::Free), true, Aim::One(name)) = (&outcome, alone, aim)
                    && !self.world().plan.forgets
                {
                    let holders = self.world().holders(name);
                    if holders.iter().any(|claim| claim.starts_with(&owner)) {
                        let what = format!("name{name} by {owner}");
                        self.world().violate("held after release", what);
                    }
                }
                outcome.map_or_else(|error| self.judge(aim, &error, began), |_| Ok(()))
            }
            5 => {
                let polls = self.random.usize(1..4);
                drop_after(guard.release(), polls).await;
                Ok(())
            }
            _ => {
                drop(guard);
                self.tell(format_args!("drops"));
                Ok(())
            }
        }
    }

    /// Takes everything once in the calm, however long that takes.
    async fn take(&mut self, aim: Aim) -> Turned {
        loop {
            let began = self.world().now();
            let names: Vec<usize> = (0..self.names).collect();
            let taken = async {
                let request = match aim {
                    Aim::Several => self.request_of_several(&names, false)?,
                    _ => self.request(aim, false, false)?,
                };
                let acquire = Acquire::<Hold>::new(request.plan.clone());
                let hold = acquire.owner(&request.owner).await?;
                let kept = Kept {
                    aim,
                    reads: &request.reads,
                    granted: self.world().now(),
                    steady: true,
                    shared: false,
                    to_the_end: false,
                    work: None,
                };
                let held = Held { hold, reads: false };
                self.given(kept, &held);
                sleep(Duration::from_millis(5)).await;
                held.hold.release().await
            };
            match taken.await {
                Ok(_) => return Ok(()),
                Err(error) => self.judge(aim, &error, began)?,
            }
        }
    }

    /// Records the granted leases and watches them from now on.
    fn given(&self, kept: Kept<'_>, held: &Held) {
        if kept.aim == Aim::Majority {
            self.host.given_by_majority(&held.hold);
        }
        for (name, lease, reads) in self.leases(kept, held) {
            self.host.given(name, &lease, reads);
        }
    }

    /// The leases of a guard, with the number of each name and whether it is held for reading. A Redlock's parts do not count
    /// on their own.
    fn leases(&self, kept: Kept<'_>, held: &Held) -> Vec<(usize, Lease, bool)> {
        match kept.aim {
            Aim::One(name) => vec![(name, held.hold.lease().clone(), held.reads)],
            Aim::Several => {
                let places = self.world().places();
                let lease = |lease: Lease| {
                    let name = places.iter().position(|it| it.name == lease.name())?;
                    Some((name, lease, kept.reads.contains(&name)))
                };
                held.hold.parts().into_iter().filter_map(lease).collect()
            }
            Aim::Majority => Vec::new(),
        }
    }

    /// Checks that an error has a cause.
    fn judge(&self, aim: Aim, error: &Error, began: Duration) -> Turned {
        let world = self.world();
        let now = world.now();
        let is_explained = match (aim, error) {
            // The checkers look at the server to see whether there was cause.
            (Aim::One(name), Error::WouldDeadlock { .. }) => world.places()[name].model.has_modes(),
            (Aim::One(name), Error::OverLimit { .. }) => world.places()[name].model.has_permits(),
            (Aim::One(name), Error::Done { record, .. }) => {
                world.check(|checks| checks.receives(name, record));
                true
            }
            (Aim::One(name), Error::QueueFull { .. }) => {
                world.places()[name].model.waits_in_a_queue
            }
            // Servers that have lost their data do not take part for one ttl.
            (Aim::Majority, Error::Backend { .. }) => {
                world.check(|checks| checks.keeps_one_out(now))
            }
            _ => false,
        };
        if is_explained {
            self.tell(format_args!("fails: {error}"));
            return Ok(());
        }
        self.host.judge(error, began)
    }

    fn tell(&self, what: std::fmt::Arguments<'_>) {
        self.world()
            .tell(format_args!("c{} {what}", self.host.links[0]));
    }

    fn world(&self) -> &World {
        &self.host.world
    }

    fn spell(&mut self, ttls: f64) -> Duration {
        self.host.spell(&mut self.random, ttls)
    }
}
