//! What a task does with several names at once, of any kinds, on any servers.

use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Error, Lease, LossReason, MultiGuard, MultiLock};
use tokio::time::{sleep, timeout};

use super::kinds::Kind;
use crate::simulation::site::{Closed, Site, Wish, word};
use crate::stall::drop_after;

/// See the module.
pub(super) struct Sets {
    site: Site,
    kinds: Vec<(Kind, usize)>,
    random: Rng,
}

/// Some names to be taken together.
struct Set {
    lock: MultiLock,
    /// The numbers of those that are taken to read.
    reads: Vec<usize>,
    _wishes: Vec<Wish>,
}

impl Sets {
    pub(super) const fn new(site: Site, kinds: Vec<(Kind, usize)>, random: Rng) -> Self {
        Self {
            site,
            kinds,
            random,
        }
    }

    /// A set of these names: for one owner, or of each client for one of its own.
    fn set(&mut self, names: &[usize], may_read: bool) -> Result<Set, Error> {
        let Self {
            site,
            kinds,
            random,
        } = self;
        let foreign = random.bool();
        let one = site.clients[random.usize(..site.clients.len())].new_owner();
        let (mut members, mut wishes, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        for &name in names {
            let (kind, server) = kinds[name];
            let client = &site.clients[server];
            let owner = if foreign { one } else { client.new_owner() };
            let to_read = may_read && kind == Kind::RwLock && random.bool();
            reads.extend(to_read.then_some(name));
            let member = kind.member(client, &site.world.places()[name].name, to_read);
            members.push(member.owner(&owner));
            wishes.push(Wish::in_one_of_several(site, name, owner));
        }
        Ok(Set {
            lock: MultiLock::new(members)?,
            reads,
            _wishes: wishes,
        })
    }

    /// One acquisition and what follows from it.
    pub(super) async fn turn(&mut self) -> Result<(), Closed> {
        let began = self.site.world.now();
        let mut names: Vec<usize> = (0..self.kinds.len()).collect();
        self.random.shuffle(&mut names);
        names.truncate(self.random.usize(1..=names.len()));
        let set = match self.set(&names, true) {
            Ok(set) => set,
            Err(error) => return self.site.judge(&error, began),
        };
        let (way, fixed) = (self.random.u8(..8), self.random.u8(..6) == 0);
        let patience = self.site.spell(&mut self.random, 1.5);
        let mut asking = set.lock.acquire();
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
            0 => set.lock.try_acquire().await,
            1..=2 => {
                let polls = self.random.usize(1..12);
                drop_after(asking, polls).await.transpose()
            }
            3 => timeout(patience, asking).await.ok().transpose(),
            _ => asking.await.map(Some),
        };
        match asked {
            Ok(Some(guard)) => self.keep(&set, guard, fixed && way > 0).await,
            Ok(None) => Ok(()),
            Err(error) => self.site.judge(&error, began),
        }
    }

    fn given(&self, set: &Set, guard: &MultiGuard) {
        for lease in guard.parts() {
            if let Some(name) = self.name_of(&lease) {
                self.site.given(name, &lease, set.reads.contains(&name));
            }
        }
    }

    fn name_of(&self, lease: &Lease) -> Option<usize> {
        let mut places = self.site.world.places().iter();
        places.position(|place| place.name == lease.name())
    }

    async fn keep(&mut self, set: &Set, guard: MultiGuard, fixed: bool) -> Result<(), Closed> {
        let granted = self.site.world.now();
        self.given(set, &guard);
        for _ in 0..self.random.usize(..4) {
            let spell = self.site.spell(&mut self.random, 0.2);
            match self.random.u8(..4) {
                0 => {
                    let told = word(&guard.verify().await);
                    let link = self.site.links[0];
                    self.site
                        .world
                        .tell(format_args!("c{link} verifies several: {told}"));
                }
                1 => {
                    // Its error says that it has ended, which the next step finds out by itself.
                    let _ = guard.run(sleep(spell)).await;
                }
                _ => self.watch(&guard, spell, fixed, granted).await,
            }
            for lease in guard.parts() {
                if let Some(name) = self.name_of(&lease) {
                    let reads = set.reads.contains(&name);
                    self.site
                        .world
                        .check(|checks| checks.touch(name, &lease, reads));
                }
            }
        }
        if fixed && self.random.bool() && !self.site.world.is_ending() {
            let longest = 2 * self.site.world.plan.ttl;
            self.watch(&guard, longest, fixed, granted).await;
            // Long enough for it to end on the servers too.
            let spell = self.site.spell(&mut self.random, 0.1);
            sleep(self.site.world.plan.timeout() + spell).await;
        }
        self.let_go(guard).await
    }

    /// Waits for a loss: with one the whole has ended.
    async fn watch(&self, guard: &MultiGuard, spell: Duration, fixed: bool, granted: Duration) {
        let world = &self.site.world;
        let Ok(lost) = timeout(spell, guard.lost()).await else {
            return;
        };
        let ended = matches!(lost.reason, LossReason::Expired | LossReason::Gone);
        if ended && !fixed && world.is_fair_since(granted) {
            world.violate("lost in fair weather", format!("{lost:?} of several"));
        }
        sleep(Duration::from_millis(1)).await;
        let held = |lease: &&Lease| lease.ensure_held().is_ok();
        if let Some(lease) = guard.parts().iter().find(held) {
            let what = format!("{} after the loss of {}", lease.name(), lost.name);
            world.violate("a lease that goes on", what);
        }
    }

    async fn let_go(&mut self, guard: MultiGuard) -> Result<(), Closed> {
        let (world, link) = (&self.site.world, self.site.links[0]);
        let began = world.now();
        match self.random.u8(..8) {
            0..4 => {
                let outcome = guard.release().await;
                let told = word(&outcome);
                world.tell(format_args!("c{link} releases several: {told}"));
                outcome.map_or_else(|error| self.site.judge(&error, began), |_| Ok(()))
            }
            4 => {
                let polls = self.random.usize(1..5);
                drop_after(guard.release(), polls).await;
                Ok(())
            }
            _ => {
                drop(guard);
                world.tell(format_args!("c{link} drops several"));
                Ok(())
            }
        }
    }

    /// Takes everything there is in fair weather, however long that takes.
    pub(super) async fn take_all(&mut self) -> Result<(), Closed> {
        let began = self.site.world.now();
        let names: Vec<usize> = (0..self.kinds.len()).collect();
        let taken = async {
            let set = self.set(&names, false)?;
            let guard = set.lock.acquire().await?;
            self.given(&set, &guard);
            sleep(Duration::from_millis(5)).await;
            guard.release().await
        };
        match taken.await {
            Ok(_) => Ok(()),
            Err(error) => self.site.judge(&error, began),
        }
    }
}
