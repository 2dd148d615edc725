//! What a task does with a lock by a majority of all servers.

use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Error, LeaseState, LossReason, Owner, Redlock, RedlockGuard};
use tokio::time::{sleep, timeout};

use super::NAME;
use crate::simulation::site::{Closed, Site, Wish, word};
use crate::stall::drop_after;

/// See the module.
pub(super) struct Quorum {
    site: Site,
    lock: Redlock,
    random: Rng,
}

impl Quorum {
    pub(super) fn new(site: Site, random: Rng) -> Result<Self, Error> {
        let lock = Redlock::new(&site.clients, NAME)?;
        Ok(Self { site, lock, random })
    }

    /// Its interest in every part.
    fn wishes(&self, owner: Owner) -> Vec<Wish> {
        let places = self.site.world.places().iter().enumerate();
        let parts = places.filter(|(_, place)| place.name == NAME);
        let wish = |(name, _)| Wish::new(&self.site, name, owner, false);
        parts.map(wish).collect()
    }

    fn owner(&mut self) -> Owner {
        let client = self.random.usize(..self.site.clients.len());
        self.site.clients[client].new_owner()
    }

    /// One acquisition and what follows from it.
    pub(super) async fn turn(&mut self) -> Result<(), Closed> {
        let owner = self.owner();
        let _wishes = self.wishes(owner);
        let began = self.site.world.now();
        let (way, fixed) = (self.random.u8(..8), self.random.u8(..6) == 0);
        let patience = self.site.spell(&mut self.random, 1.5);
        let mut asking = self.lock.acquire().owner(&owner);
        if fixed {
            asking = asking.no_renewal();
        }
        if self.random.u8(..6) == 0 {
            asking = asking.ttl(self.site.world.plan.shortest_ttl());
        }
        if way > 5 {
            asking = asking.wait_for(patience);
        }
        let asking = asking.into_future();
        let asked = match way {
            0 => self.lock.try_acquire().owner(&owner).await,
            1..=2 => {
                let polls = self.random.usize(1..12);
                drop_after(asking, polls).await.transpose()
            }
            3 => timeout(patience, asking).await.ok().transpose(),
            _ => asking.await.map(Some),
        };
        match asked {
            Ok(Some(guard)) => self.keep(guard, fixed && way > 0).await,
            Ok(None) => Ok(()),
            Err(error) => self.judge(&error, began),
        }
    }

    /// Whether an error may be: servers that have lost their data take no part for one ttl.
    fn judge(&self, error: &Error, began: Duration) -> Result<(), Closed> {
        let world = &self.site.world;
        let now = world.now();
        if matches!(error, Error::Backend { .. }) && world.check(|checks| checks.keeps_one_out(now))
        {
            world.tell(format_args!("c{} fails: {error}", self.site.links[0]));
            return Ok(());
        }
        self.site.judge(error, began)
    }

    async fn keep(&mut self, guard: RedlockGuard, fixed: bool) -> Result<(), Closed> {
        let world = &self.site.world;
        let granted = world.now();
        self.site.given_by_majority(&guard);
        let to_the_end = fixed && self.random.bool() && !world.is_ending();
        for _ in 0..self.random.usize(..4) {
            let spell = self.site.spell(&mut self.random, 0.2);
            match self.random.u8(..4) {
                0 => {
                    let outcome = guard.verify().await;
                    let told = word(&outcome);
                    world.tell(format_args!("c{} verifies: {told}", self.site.links[0]));
                }
                1 => {
                    // Its error says that the lease has ended, which the next step finds out by itself.
                    let _ = guard.run(sleep(spell)).await;
                }
                _ => {
                    let _ = timeout(spell, guard.lost()).await;
                }
            }
        }
        if to_the_end {
            guard.lost().await;
            let spell = self.site.spell(&mut self.random, 0.1);
            sleep(world.plan.timeout() + spell).await;
        }
        let lost = guard.state();
        if let LeaseState::Lost(LossReason::Expired | LossReason::Gone) = lost
            && !fixed
            && world.is_fair_since(granted)
        {
            let what = format!("process {} lost the Redlock: {lost:?}", self.site.links[0]);
            world.violate("lost in fair weather", what);
        }
        self.let_go(guard).await
    }

    async fn let_go(&mut self, guard: RedlockGuard) -> Result<(), Closed> {
        let (world, link) = (&self.site.world, self.site.links[0]);
        let began = world.now();
        match self.random.u8(..8) {
            0..4 => {
                let outcome = guard.release().await;
                let told = word(&outcome);
                world.tell(format_args!("c{link} releases the Redlock: {told}"));
                outcome.map_or_else(|error| self.judge(&error, began), |_| Ok(()))
            }
            4 => {
                let polls = self.random.usize(1..5);
                drop_after(guard.release(), polls).await;
                Ok(())
            }
            _ => {
                drop(guard);
                world.tell(format_args!("c{link} drops the Redlock"));
                Ok(())
            }
        }
    }

    /// Takes it in fair weather, however long that takes.
    pub(super) async fn take(&mut self) -> Result<(), Closed> {
        let owner = self.owner();
        let _wishes = self.wishes(owner);
        loop {
            let began = self.site.world.now();
            match self.lock.acquire().owner(&owner).await {
                Ok(guard) => {
                    self.site.given_by_majority(&guard);
                    sleep(Duration::from_millis(5)).await;
                    let released = guard.release().await;
                    return released.map_or_else(|error| self.judge(&error, began), |_| Ok(()));
                }
                Err(error) => self.judge(&error, began)?,
            }
        }
    }
}
