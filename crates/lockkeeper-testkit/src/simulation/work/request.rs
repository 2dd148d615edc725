//! What a task acquires, and how.

use lockkeeper::{Acquire, Error, Lock as _, MultiLock, Owner, Redlock};
use lockkeeper_core::{Hold, Plan};
use lockkeeper_once::ByHand;

use super::Worker;
use crate::simulation::host::Wish;
use crate::simulation::locks::{self, LIMIT};
use crate::simulation::place::{Place, REDLOCK};

/// What is acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// This name.
    One(usize),
    /// Some names together.
    Several,
    /// The Redlock.
    Majority,
}

/// An acquisition.
pub(super) struct Request {
    pub(super) plan: Plan,
    pub(super) owner: Owner,
    /// The run, for work that is done once.
    pub(super) work: Option<ByHand>,
    /// The numbers of the names to take for reading.
    pub(super) reads: Vec<usize>,
    pub(super) wishes: Vec<Wish>,
}

impl Worker {
    /// The terms of an acquisition that waits.
    pub(super) fn terms(
        &mut self,
        renewed: bool,
        limited: bool,
        patient: bool,
        max_queue: Option<u64>,
    ) -> impl FnOnce(Acquire<Hold>) -> Acquire<Hold> + use<> {
        let short = self.random.u8(..6) == 0;
        let ttl = short.then(|| self.world().plan.shortest_ttl());
        let max_hold = limited.then(|| self.world().plan.timeout() + self.spell(1.0));
        let patience = patient.then(|| self.spell(1.5));
        move |mut acquire| {
            if let Some(ttl) = ttl {
                acquire = acquire.ttl(ttl);
            }
            if !renewed {
                acquire = acquire.no_renewal();
            }
            if let Some(longest) = max_hold {
                acquire = acquire.max_hold(longest);
            }
            if let Some(longest) = patience {
                acquire = acquire.wait_for(longest);
            }
            if let Some(most) = max_queue {
                acquire = acquire.max_queue(most);
            }
            acquire
        }
    }

    /// A request for the aim; each name that has modes gets one at random.
    pub(super) fn request(
        &mut self,
        aim: Aim,
        shared: bool,
        tries: bool,
    ) -> Result<Request, Error> {
        match aim {
            Aim::One(name) => {
                let &Place { server, model, .. } = &self.host.world.places()[name];
                let owner = if shared {
                    self.owners[server]
                } else {
                    self.host.clients[server].new_owner()
                };
                let reads = model.has_modes()
                    && if tries {
                        self.random.bool()
                    } else {
                        self.random.u8(..3) > 0
                    };
                let client = &self.host.clients[server];
                let mode = locks::mode(&model, reads, || self.random.u8(1..=LIMIT));
                let name_of = &self.host.world.places()[name].name;
                let plan = &self.host.world.plan;
                let work = locks::work(&model, client, name_of, plan, &mut self.random)?;
                let target = match &work {
                    Some(work) => work.target(),
                    None => locks::target(&model, client, name_of, owner, mode),
                };
                Ok(Request {
                    plan: target.into(),
                    owner,
                    work,
                    reads: reads.then_some(name).into_iter().collect(),
                    wishes: vec![Wish::new(&self.host, name, owner, !tries)],
                })
            }
            Aim::Several => {
                let mut names: Vec<usize> = (0..self.names).collect();
                self.random.shuffle(&mut names);
                names.truncate(self.random.usize(1..=names.len()));
                self.request_of_several(&names, true)
            }
            Aim::Majority => {
                let client = self.random.usize(..self.host.clients.len());
                let owner = self.host.clients[client].new_owner();
                let places = self.world().places().iter().enumerate();
                let parts = places.filter(|(_, place)| place.name == REDLOCK);
                let wishes = parts.map(|(name, _)| Wish::new(&self.host, name, owner, false));
                Ok(Request {
                    wishes: wishes.collect(),
                    plan: Redlock::new(&self.host.clients, REDLOCK)?.plan(),
                    owner,
                    work: None,
                    reads: Vec::new(),
                })
            }
        }
    }

    /// A request for these names together, with one owner for all or one per client.
    pub(super) fn request_of_several(
        &mut self,
        names: &[usize],
        may_read: bool,
    ) -> Result<Request, Error> {
        let (host, random) = (&self.host, &mut self.random);
        let foreign = random.bool();
        let one = host.clients[random.usize(..host.clients.len())].new_owner();
        let (mut members, mut wishes, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        for &name in names {
            let place = &host.world.places()[name];
            let client = &host.clients[place.server];
            let owner = if foreign { one } else { client.new_owner() };
            let to_read = may_read && place.model.has_modes() && random.bool();
            reads.extend(to_read.then_some(name));
            let mode = locks::mode(&place.model, to_read, || 1);
            let member = locks::target(&place.model, client, &place.name, owner, mode);
            members.push(member.owner(&owner));
            wishes.push(Wish::in_one_of_several(host, name, owner));
        }
        Ok(Request {
            plan: MultiLock::new(members)?.plan(),
            owner: one,
            work: None,
            reads,
            wishes,
        })
    }
}
