//! A host: a process with one client per server, each with its own connections. The common part of its tasks: they report to
//! the checkers what they want and what they were given, judge errors, and do not run while the host is paused.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Client, Error, Lease, LeaseState, Owner};
use tokio::time::Sleep;

use super::world::World;

/// One process with its clients.
#[derive(Debug, Clone)]
pub(super) struct Host {
    pub(super) world: Arc<World>,
    /// The links of its clients, by server.
    pub(super) links: Vec<usize>,
    /// One per server.
    pub(super) clients: Vec<Client>,
}

impl Host {
    /// The seed of one part of the host.
    pub(super) fn seed(&self, part: u64) -> u64 {
        let own = self
            .links
            .first()
            .map_or(0, |link| 100 * (1 + *link as u64));
        self.world.plan.seed_of(own + part)
    }

    /// The link of its client for the server of a name.
    pub(super) fn link_of(&self, name: usize) -> usize {
        self.links[self.world.places()[name].server]
    }

    /// Whether one of its clients is being closed.
    fn is_closing(&self) -> bool {
        let network = self.world.network();
        self.links.iter().any(|link| network.links[*link].closing)
    }

    /// Records a granted lease and watches it from now on.
    pub(super) fn given(&self, name: usize, lease: &Lease, reads: bool) {
        let (world, link) = (Arc::clone(&self.world), self.link_of(name));
        let token = lease.fencing_token();
        world.tell(format_args!("c{link} holds name{name} with {token}"));
        world.check(|checks| checks.given(name, link, lease, reads));
        world.look(|_| false);
        let lease = lease.clone();
        tokio::spawn(async move {
            let end = lease.ended().await;
            let said = match lease.state() {
                LeaseState::Lost(reason) => Some(Some(reason)),
                LeaseState::Released => Some(None),
                _ => None,
            };
            world.tell(format_args!("c{link} has held with {token}: {end:?}"));
            if said != Some(end.reason()) {
                let what = format!("ended {end:?}, and the state is {said:?}");
                world.violate("two ends of a lease", what);
            }
        });
    }

    /// Records a lease that a majority of the servers granted.
    pub(super) fn given_by_majority(&self, lease: &Lease) {
        let (token, host) = (lease.fencing_token(), self.links[0]);
        self.world
            .tell(format_args!("c{host} holds the Redlock with {token}"));
        self.world
            .check(|checks| checks.given_by_majority(host, lease));
    }

    /// Checks that an error has a cause.
    pub(super) fn judge(&self, error: &Error, began: Duration) -> Result<(), Closed> {
        self.world
            .tell(format_args!("c{} fails: {error}", self.links[0]));
        match error {
            Error::Closed if self.is_closing() => Err(Closed),
            Error::Lost { .. } | Error::NotHeld { .. } | Error::Timeout { .. } => Ok(()),
            Error::Partial { failures, .. } => {
                let mut failures = failures.iter();
                failures.try_for_each(|(_, failure)| self.judge(failure, began))
            }
            Error::Backend { .. } if !self.world.is_calm_since(began) => Ok(()),
            error => {
                let what = format!("client {}: {error}", self.links[0]);
                self.world.violate("an error without cause", what);
                Err(Closed)
            }
        }
    }

    /// A random time up to this many ttls.
    pub(super) fn spell(&self, random: &mut Rng, ttls: f64) -> Duration {
        let longest = self.world.plan.ttl.mul_f64(ttls).as_millis();
        let longest = u64::try_from(longest).unwrap_or(0);
        Duration::from_millis(random.u64(0..=longest))
    }
}

/// The client is closed, so the task ends.
pub(super) struct Closed;

/// A task's interest in a name while it acquires or holds.
pub(super) struct Wish {
    world: Arc<World>,
    link: usize,
    name: usize,
    owner: Owner,
    waits: bool,
}

impl Wish {
    pub(super) fn new(host: &Host, name: usize, owner: Owner, waits: bool) -> Self {
        let (world, link) = (Arc::clone(&host.world), host.link_of(name));
        world.check(|checks| checks.wants(link, name, owner, waits));
        Self {
            world,
            link,
            name,
            owner,
            waits,
        }
    }

    /// Interest in a name that is acquired together with others, all of them or none.
    pub(super) fn in_one_of_several(host: &Host, name: usize, owner: Owner) -> Self {
        host.world.check(|checks| checks.gathers(name, owner));
        Self::new(host, name, owner, false)
    }

    pub(super) fn waited(&mut self) {
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

/// The outcome of a call, for the trace.
pub(super) fn word<T, E: std::fmt::Display>(outcome: &Result<T, E>) -> String {
    outcome
        .as_ref()
        .map_or_else(ToString::to_string, |_| "ok".to_owned())
}

/// A task of a client, which does not run while the client is paused.
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
