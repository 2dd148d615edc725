//! What the tasks of a simulated client do: acquire in every way there is, hold, look, write, nest, let go in every way
//! there is, or stop in the middle.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Client, End, Error, Lease, LeaseState, LossReason, Owner, Released};
use tokio::time::{Sleep, sleep};

use super::beyond::Beyond;
use super::plan::Plan;
use super::species::{Changed, Species, Terms};
use super::world::World;
use crate::stall::drop_after;

/// One task of a client.
pub(super) struct Worker<S: Species> {
    pub(super) world: Arc<World>,
    pub(super) client: Client,
    pub(super) locks: Vec<S::Lock>,
    /// An owner that several tasks of the client share.
    pub(super) owner: Owner,
    pub(super) link: usize,
    pub(super) random: Rng,
}

/// What is known of a hold when it begins.
#[derive(Debug, Clone, Copy)]
struct Kept {
    name: usize,
    /// It is renewed, and without bound.
    steady: bool,
    /// Other tasks have the same owner.
    shared: bool,
    /// It is kept until it is lost, and longer.
    to_the_end: bool,
}

/// The client is closed: there is nothing more to do.
struct Closed;

/// The interest of a task in a name, for as long as it acquires or holds.
struct Wish {
    world: Arc<World>,
    link: usize,
    name: usize,
    owner: Owner,
    waits: bool,
}

impl Wish {
    fn new(world: &Arc<World>, link: usize, name: usize, owner: Owner, waits: bool) -> Self {
        world.check(|checks| checks.wants(link, name, owner, waits));
        Self {
            world: Arc::clone(world),
            link,
            name,
            owner,
            waits,
        }
    }

    fn waited(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.world
                .check(|checks| checks.waited(self.link, self.name));
        }
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        self.waited();
        let (name, owner) = (self.name, self.owner);
        self.world.check(|checks| checks.wants_no_more(name, owner));
    }
}

impl<S: Species> Worker<S> {
    /// Works until the history ends or the client is closed.
    pub(super) async fn run(mut self) {
        while !self.world.is_ending() {
            if self.turn().await.is_err() {
                return;
            }
            let pause = self.spell(0.12);
            sleep(pause).await;
        }
    }

    /// One acquisition and what follows from it.
    async fn turn(&mut self) -> Result<(), Closed> {
        let name = self.random.usize(..self.locks.len());
        let lock = self.locks[name].clone();
        let shared = self.random.u8(..3) == 0;
        let owner = if shared {
            self.owner
        } else {
            self.client.new_owner()
        };
        let way = self.random.u8(..12);
        let mut wish = Wish::new(&self.world, self.link, name, owner, way >= 2);
        let began = self.world.now();
        let renewed = self.random.u8(..6) != 0;
        let limited = self.random.u8(..10) == 0;
        let guard = if way < 2 {
            S::try_acquire(&lock, &owner, &mut self.random).await
        } else {
            let terms = self.terms(renewed, limited, matches!(way, 2..=3));
            let asking = S::acquire(&lock, &owner, terms, &mut self.random);
            match way {
                4..=6 => {
                    let polls = self.random.usize(1..8);
                    drop_after(asking, polls).await.transpose()
                }
                7 => {
                    let patience = self.spell(0.6);
                    let outcome = tokio::time::timeout(patience, asking).await;
                    outcome.ok().transpose()
                }
                _ => asking.await.map(Some),
            }
        };
        wish.waited();
        match guard {
            Ok(Some(guard)) => {
                let kept = Kept {
                    name,
                    steady: way < 2 || renewed && !limited,
                    shared,
                    to_the_end: way >= 2 && !renewed && self.random.bool(),
                };
                self.keep(kept, guard).await
            }
            Ok(None) => Ok(()),
            Err(error) => self.judge(&error, began),
        }
    }

    fn terms(&mut self, renewed: bool, limited: bool, patient: bool) -> Terms {
        let short = self.random.u8(..6) == 0;
        Terms {
            ttl: short.then(|| self.world.plan.shortest_ttl()),
            fixed: !renewed,
            max_hold: limited.then(|| self.world.plan.timeout() + self.spell(1.0)),
            wait: patient.then(|| self.spell(1.5)),
        }
    }

    /// Holds for some time, and lets go.
    async fn keep(&mut self, kept: Kept, first: S::Guard) -> Result<(), Closed> {
        let name = kept.name;
        let granted = self.world.now();
        self.given(name, &first);
        let mut guards = vec![first];
        let mut alone = !kept.shared;
        if kept.to_the_end
            && !self.world.is_ending()
            && let Some(guard) = guards.first()
        {
            guard.lost().await;
            // Long enough for it to end on the server too, without a leave and so without a word to those who wait.
            let spell = self.spell(0.1);
            sleep(self.world.plan.timeout() + spell).await;
        }
        for _ in 0..self.random.usize(..5) {
            let Some(guard) = guards.last() else { break };
            match self.random.u8(..10) {
                0..=1 => {
                    let long = self.random.u8(..8) == 0 && !self.world.is_ending();
                    let spell = self.spell(if long { 1.8 } else { 0.15 });
                    sleep(spell).await;
                }
                2..=3 => {
                    let spell = self.spell(0.1);
                    // Its error says that the lease has ended, which the next step finds out by itself.
                    let _ = guard.run(sleep(spell)).await;
                }
                4..=6 => {
                    let outcome = guard.verify().await;
                    self.world
                        .tell(format_args!("c{} verifies: {}", self.link, word(&outcome)));
                }
                7..=8 => {
                    if let Ok(Some(again)) = S::again(guard, &mut self.random).await {
                        self.given(name, &again);
                        guards.push(again);
                    }
                }
                _ if S::MODES => alone &= self.change(kept, granted, &mut guards).await?,
                _ => tokio::task::yield_now().await,
            }
            for guard in &guards {
                let reads = S::reads(guard);
                if self.world.plan.beyond == Some(Beyond::LateWrite) {
                    if guard.ensure_held().is_err() {
                        continue;
                    }
                    let spell = self.spell(1.5);
                    sleep(spell).await;
                }
                self.world.check(|checks| checks.touch(name, guard, reads));
            }
        }
        let lost = matches!(
            guards.first().map(|guard| guard.state()),
            Some(LeaseState::Lost(LossReason::Expired | LossReason::Gone))
        );
        if lost {
            self.lost(kept, granted);
        }
        alone &= guards.len() == 1;
        while !guards.is_empty() {
            let guard = guards.swap_remove(self.random.usize(..guards.len()));
            self.let_go(name, guard, alone).await?;
        }
        Ok(())
    }

    /// A lease was lost, which was granted then: whether that may be.
    fn lost(&self, kept: Kept, granted: Duration) {
        if kept.steady && !kept.shared && self.world.is_fair_since(granted) {
            let what = format!(
                "client {} lost name{} although nothing went wrong",
                self.link, kept.name
            );
            self.world.violate("lost in fair weather", what);
        }
    }

    /// Changes the mode of the last guard, or gives that up half way. Whether nothing may be left of it.
    async fn change(
        &mut self,
        kept: Kept,
        granted: Duration,
        guards: &mut Vec<S::Guard>,
    ) -> Result<bool, Closed> {
        let Some(guard) = guards.pop() else {
            return Ok(true);
        };
        let began = self.world.now();
        let changing = S::change(guard);
        let outcome = if self.random.u8(..4) == 0 {
            drop_after(changing, self.random.usize(1..6)).await
        } else {
            Some(changing.await)
        };
        match outcome {
            None => {
                self.world
                    .tell(format_args!("c{} gives a change up", self.link));
                Ok(false)
            }
            Some(Ok(Changed::Refused(guard))) => {
                self.world
                    .tell(format_args!("c{} is refused a change", self.link));
                guards.push(guard);
                Ok(true)
            }
            Some(Ok(Changed::Done(guard))) => {
                self.given(kept.name, &guard);
                guards.push(guard);
                Ok(true)
            }
            Some(Err(error)) => {
                if matches!(error, Error::Lost { .. } | Error::NotHeld { .. }) {
                    self.lost(kept, granted);
                }
                self.judge(&error, began).map(|()| false)
            }
        }
    }

    async fn let_go(&mut self, name: usize, guard: S::Guard, alone: bool) -> Result<(), Closed> {
        let owner = format!("{}/", guard.owner());
        let began = self.world.now();
        match self.random.u8(..10) {
            0..=4 => {
                let outcome = S::release(guard).await;
                self.world
                    .tell(format_args!("c{} releases: {}", self.link, word(&outcome)));
                if let (Ok(Released::Free), true) = (&outcome, alone && !self.world.plan.forgets) {
                    let holders = S::default().holders(&self.world.server, &Plan::main(name));
                    if holders.iter().any(|claim| claim.starts_with(&owner)) {
                        self.world
                            .violate("held after release", format!("name{name} by {owner}"));
                    }
                }
                outcome.map_or_else(|error| self.judge(&error, began), |_| Ok(()))
            }
            5 => {
                let polls = self.random.usize(1..4);
                drop_after(S::release(guard), polls).await;
                Ok(())
            }
            _ => {
                drop(guard);
                self.world.tell(format_args!("c{} drops", self.link));
                Ok(())
            }
        }
    }

    /// A lease was granted: from now on it is watched.
    fn given(&self, name: usize, guard: &S::Guard) {
        let (lease, reads): (&Lease, bool) = (guard, S::reads(guard));
        let (world, link) = (Arc::clone(&self.world), self.link);
        let token = lease.fencing_token();
        world.tell(format_args!("c{link} holds name{name} with {token}"));
        world.check(|checks| checks.given(name, link, lease, reads));
        world.look(false);
        let lease = lease.clone();
        tokio::spawn(async move {
            let end = lease.ended().await;
            let said = match lease.state() {
                LeaseState::Lost(reason) => Some(End::Lost(reason)),
                LeaseState::Released => Some(End::Released),
                _ => None,
            };
            world.tell(format_args!("c{link} has held with {token}: {end:?}"));
            if said != Some(end) {
                let what = format!("ended {end:?}, and the state is {said:?}");
                world.violate("two ends of a lease", what);
            }
        });
    }

    /// Whether an error may be.
    fn judge(&self, error: &Error, began: Duration) -> Result<(), Closed> {
        self.world
            .tell(format_args!("c{} fails: {error}", self.link));
        match error {
            Error::Closed if self.world.network().links[self.link].closing => Err(Closed),
            Error::Lost { .. } | Error::NotHeld { .. } | Error::Timeout { .. } => Ok(()),
            // Whether there was cause is seen on the server.
            Error::WouldDeadlock { .. } if S::MODES => Ok(()),
            Error::Backend { .. } if !self.world.is_fair_since(began) => Ok(()),
            error => {
                let what = format!("client {}: {error}", self.link);
                self.world.violate("an error without cause", what);
                Err(Closed)
            }
        }
    }

    /// A random time up to so many ttls.
    fn spell(&mut self, ttls: f64) -> Duration {
        let longest = self.world.plan.ttl.mul_f64(ttls).as_millis();
        let longest = u64::try_from(longest).unwrap_or(0);
        Duration::from_millis(self.random.u64(0..=longest))
    }
}

fn word<T, E: std::fmt::Display>(outcome: &Result<T, E>) -> String {
    outcome
        .as_ref()
        .map_or_else(ToString::to_string, |_| "ok".to_owned())
}

/// A task of a client, which does not run while its client is paused.
pub(super) struct Pausable<F> {
    task: Pin<Box<F>>,
    world: Arc<World>,
    link: usize,
    until: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Pausable<F> {
    pub(super) fn new(world: &Arc<World>, link: usize, task: F) -> Self {
        Self {
            task: Box::pin(task),
            world: Arc::clone(world),
            link,
            until: None,
        }
    }
}

impl<F: Future> Future for Pausable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let paused = self.world.network().links[self.link].paused;
        if paused > self.world.now() {
            let until = self.world.instant(paused);
            let sleep = self
                .until
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if sleep.deadline() != until {
                sleep.as_mut().reset(until);
            }
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        self.until = None;
        self.task.as_mut().poll(context)
    }
}
