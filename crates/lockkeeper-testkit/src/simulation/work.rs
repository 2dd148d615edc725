//! What the tasks of a simulated client do: acquire in every way there is, hold, look, write, nest, let go in every way
//! there is, or stop in the middle.

use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Error, LeaseState, LossReason, Owner, Released};
use tokio::time::sleep;

use super::beyond::Beyond;
use super::site::{Closed, Site, Wish, word};
use super::species::{Changed, Species, Terms};
use super::world::World;
use crate::stall::drop_after;

/// One task of a client.
pub(super) struct Worker<S: Species> {
    pub(super) site: Site,
    /// The server that its locks are on.
    pub(super) place: usize,
    /// With the numbers of their names.
    pub(super) locks: Vec<(usize, S::Lock)>,
    /// An owner that several tasks of the client share.
    pub(super) owner: Owner,
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

impl<S: Species> Worker<S> {
    /// Works until the history ends or the client is closed.
    pub(super) async fn run(mut self) {
        while !self.world().is_ending() {
            if self.turn().await.is_err() {
                return;
            }
            let pause = self.spell(0.12);
            sleep(pause).await;
        }
    }

    /// One acquisition and what follows from it.
    pub(super) async fn turn(&mut self) -> Result<(), Closed> {
        let lock = self.random.usize(..self.locks.len());
        let (name, lock) = self.locks[lock].clone();
        let shared = self.random.u8(..3) == 0;
        let owner = if shared {
            self.owner
        } else {
            self.site.clients[self.place].new_owner()
        };
        let way = self.random.u8(..12);
        let mut wish = Wish::new(&self.site, name, owner, way >= 2);
        let began = self.world().now();
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
            ttl: short.then(|| self.world().plan.shortest_ttl()),
            fixed: !renewed,
            max_hold: limited.then(|| self.world().plan.timeout() + self.spell(1.0)),
            wait: patient.then(|| self.spell(1.5)),
        }
    }

    /// Holds for some time, and lets go.
    async fn keep(&mut self, kept: Kept, first: S::Guard) -> Result<(), Closed> {
        let name = kept.name;
        let granted = self.world().now();
        self.given(name, &first);
        let mut guards = vec![first];
        let mut alone = !kept.shared;
        if kept.to_the_end
            && !self.world().is_ending()
            && let Some(guard) = guards.first()
        {
            guard.lost().await;
            // Long enough for it to end on the server too, without a leave and so without a word to those who wait.
            let spell = self.spell(0.1);
            sleep(self.world().plan.timeout() + spell).await;
        }
        for _ in 0..self.random.usize(..5) {
            let Some(guard) = guards.last() else { break };
            match self.random.u8(..10) {
                0..=1 => {
                    let long = self.random.u8(..8) == 0 && !self.world().is_ending();
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
                    self.world().tell(format_args!(
                        "c{} verifies: {}",
                        self.link(),
                        word(&outcome)
                    ));
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
                if self.world().plan.beyond == Some(Beyond::LateWrite) {
                    if guard.ensure_held().is_err() {
                        continue;
                    }
                    let spell = self.spell(1.5);
                    sleep(spell).await;
                }
                self.world()
                    .check(|checks| checks.touch(name, guard, reads));
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
        if kept.steady && !kept.shared && self.world().is_fair_since(granted) {
            let what = format!(
                "client {} lost name{} although nothing went wrong",
                self.link(),
                kept.name
            );
            self.world().violate("lost in fair weather", what);
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
        let began = self.world().now();
        let changing = S::change(guard);
        let outcome = if self.random.u8(..4) == 0 {
            drop_after(changing, self.random.usize(1..6)).await
        } else {
            Some(changing.await)
        };
        match outcome {
            None => {
                self.world()
                    .tell(format_args!("c{} gives a change up", self.link()));
                Ok(false)
            }
            Some(Ok(Changed::Refused(guard))) => {
                self.world()
                    .tell(format_args!("c{} is refused a change", self.link()));
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
        let began = self.world().now();
        match self.random.u8(..10) {
            0..=4 => {
                let outcome = S::release(guard).await;
                self.world().tell(format_args!(
                    "c{} releases: {}",
                    self.link(),
                    word(&outcome)
                ));
                if let (Ok(Released::Free), true) = (&outcome, alone && !self.world().plan.forgets)
                {
                    let holders = self.world().holders(name);
                    if holders.iter().any(|claim| claim.starts_with(&owner)) {
                        self.world()
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
                self.world().tell(format_args!("c{} drops", self.link()));
                Ok(())
            }
        }
    }

    /// A lease was granted: from now on it is watched.
    fn given(&self, name: usize, guard: &S::Guard) {
        self.site.given(name, guard, S::reads(guard));
    }

    /// Whether an error may be.
    fn judge(&self, error: &Error, began: Duration) -> Result<(), Closed> {
        if S::MODES && matches!(error, Error::WouldDeadlock { .. }) {
            // Whether there was cause is seen on the server.
            self.world()
                .tell(format_args!("c{} fails: {error}", self.link()));
            return Ok(());
        }
        self.site.judge(error, began)
    }

    fn link(&self) -> usize {
        self.site.links[self.place]
    }

    fn world(&self) -> &World {
        &self.site.world
    }

    fn spell(&mut self, ttls: f64) -> Duration {
        self.site.spell(&mut self.random, ttls)
    }
}
