//! A waiter's place in the line for one name, of kinds without a queue on the server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::registry::{Turn, WaiterId};
use super::{Hub, Reader};
use crate::clock::{Moment, sleep_until};
use crate::owner::Owner;
use crate::protocol::Protocol;
use crate::store::StoreError;

/// A place in the line for one name. Dropping it gives the place up and, if need be, the scout's role with it.
#[derive(Debug)]
pub(crate) struct Place {
    hub: Arc<Hub>,
    channel: String,
    waiter: WaiterId,
    bell: Arc<Notify>,
    patience: Duration,
    granted: Option<Moment>,
}

impl Place {
    /// Takes a place in the line for `protocol`'s name, which is held, perhaps until `free`. The waiter waits for `owner`, and
    /// for an unreachable server as long as its `patience`.
    pub(crate) fn new(
        hub: &Arc<Hub>,
        protocol: &Arc<dyn Protocol>,
        owner: Owner,
        patience: Duration,
        free: Option<Moment>,
    ) -> Self {
        let owner = protocol.reenters().then_some(owner);
        let channel = protocol.channel();
        let bell = Arc::new(Notify::new());
        let now = hub.clock.now();
        let reader = Reader::Waiters(Arc::clone(protocol));
        let waiter = hub.change_state(|state| {
            let (waiter, steps) = state.registry.join(&channel, reader, owner, free, now);
            state.bells.insert(waiter, Arc::clone(&bell));
            (waiter, steps)
        });
        Self {
            hub: Arc::clone(hub),
            channel,
            waiter,
            bell,
            patience,
            granted: None,
        }
    }

    /// Waits until it is this waiter's turn to ask the server.
    pub(crate) async fn turn(&self) -> Result<(), StoreError> {
        loop {
            let now = self.hub.clock.now();
            let turn = self.hub.change_state(|state| {
                let registry = &mut state.registry;
                let turn = registry.turn(&self.channel, self.waiter, self.patience, now);
                (turn, Vec::new())
            });
            match turn {
                Turn::Look => return Ok(()),
                Turn::GiveUp(error) => return Err(error),
                Turn::Wait(None) => self.bell.notified().await,
                Turn::Wait(Some(moment)) => tokio::select! {
                    biased;
                    () = self.bell.notified() => {}
                    () = sleep_until(&self.hub.clock, moment) => {}
                },
            }
        }
    }

    /// The look was answered: the name is held, perhaps until `free`.
    pub(crate) fn busy(&self, free: Option<Moment>) {
        let now = self.hub.clock.now();
        self.hub.change(|registry| {
            registry.busy(&self.channel, self.waiter, free, now);
            Vec::new()
        });
    }

    /// The server was out of reach for too long: everybody who waits here and has no more patience gives up.
    pub(crate) fn unreachable(&self, error: &StoreError) {
        self.hub
            .change(|registry| registry.unreachable(&self.channel, self.patience, error));
    }

    /// The look was answered: this waiter holds, until `until` if nothing else happens.
    pub(crate) fn granted(mut self, until: Moment) {
        self.granted = Some(until);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let now = self.hub.clock.now();
        self.hub.change_state(|state| {
            state.bells.remove(&self.waiter);
            let registry = &mut state.registry;
            let steps = registry.leave(&self.channel, self.waiter, self.granted, now);
            ((), steps)
        });
    }
}
