//! A waiter's place in the local queue of one name, for kinds without a queue on the server.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::engine::subscriptions::presence::Subscription;
use crate::engine::subscriptions::{Reader, Subscriptions};
use crate::registry::{Turn, WaiterId};
use crate::seam::clock::sleep_until;
use crate::seam::protocol::Protocol;
use crate::words::kind::Kind;
use crate::words::moment::Moment;
use crate::words::owner::Owner;
use crate::words::record::Record;
use crate::words::store_error::StoreError;

/// A place in the local queue of one name. Dropping it gives up the place. If this waiter is the poller, the next one
/// becomes the poller.
#[derive(Debug)]
pub(crate) struct Place {
    subscriptions: Arc<Subscriptions>,
    channel: String,
    waiter: WaiterId,
    bell: Arc<Notify>,
    /// What the waiter waits for: others on the channel may wait for locks of other kinds.
    kind: Kind,
    granted: Option<Moment>,
    /// Listens for the end of a hold whose holder sends no message.
    _key: Option<Subscription>,
}

/// Why a waiter stops waiting without a poll of its own.
#[derive(Debug)]
pub(crate) enum Over {
    /// Waiting is not possible, for this reason.
    Impossible(StoreError),
    /// There is nothing to hold: the work of the name is done, or has failed.
    Done(Arc<Record>),
}

impl Place {
    /// Takes a place in the local queue for `protocol`'s name, which is held, perhaps until `free`. The waiter waits on
    /// behalf of `owner`, and tolerates an unreachable server for its `patience`.
    pub(crate) fn new(
        subscriptions: &Arc<Subscriptions>,
        protocol: &Arc<dyn Protocol>,
        owner: Owner,
        patience: Duration,
        free: Option<Moment>,
    ) -> Self {
        let owner = protocol.reenters().then_some(owner);
        let channel = protocol.channel();
        let bell = Arc::new(Notify::new());
        let now = subscriptions.clock.now();
        let reader = Reader::Waiters(protocol.is_wake());
        let waiter = subscriptions.change_state(|state| {
            let (waiter, steps) = state
                .registry
                .join(&channel, reader, owner, patience, free, now);
            if let Some(parts) = protocol.shared_parts() {
                state.registry.share(&channel, waiter, parts);
            }
            state.bells.insert(waiter, Arc::clone(&bell));
            (waiter, steps)
        });
        Self {
            subscriptions: Arc::clone(subscriptions),
            channel,
            waiter,
            bell,
            kind: protocol.kind(),
            granted: None,
            _key: subscriptions.hear_of_key(&**protocol),
        }
    }

    /// Takes this waiter's turn, if it is its turn now. A poll that begins after this call sees everything that messages
    /// have reported before it.
    pub(crate) fn try_turn(&self) -> bool {
        matches!(self.look(), Ok(Turn::Poll))
    }

    fn look(&self) -> Result<Turn, Over> {
        let now = self.subscriptions.clock.now();
        self.subscriptions.change_state(|state| {
            let registry = &mut state.registry;
            if let Some(record) = registry.done(&self.channel, self.kind, self.waiter) {
                return (Err(Over::Done(record)), Vec::new());
            }
            let turn = registry.turn(&self.channel, self.waiter, now);
            (Ok(turn), Vec::new())
        })
    }

    /// Waits until it is this waiter's turn to ask the server.
    pub(crate) async fn turn(&self) -> Result<(), Over> {
        loop {
            match self.look()? {
                Turn::Poll => return Ok(()),
                Turn::GiveUp(error) => return Err(Over::Impossible(error)),
                Turn::Wait(None) => self.bell.notified().await,
                Turn::Wait(Some(moment)) => tokio::select! {
                    biased;
                    () = self.bell.notified() => {}
                    () = sleep_until(&self.subscriptions.clock, moment) => {}
                },
            }
        }
    }

    /// Reports the answer to this waiter's poll: the name is held, perhaps until `free`. If the waiter asked for more than
    /// there is, the name has this many `parts`.
    pub(crate) fn busy(&self, free: Option<Moment>, parts: Option<u32>) {
        let now = self.subscriptions.clock.now();
        self.subscriptions.change(|registry| {
            if let Some(parts) = parts {
                registry.has_parts(&self.channel, parts);
            }
            registry.busy(&self.channel, self.waiter, free, now)
        });
    }

    /// Reports that this waiter's poll got no answer, and that it polls again.
    pub(crate) fn silent(&self) {
        self.subscriptions
            .change(|registry| registry.silent(&self.channel, self.waiter));
    }

    /// Reports that the server was silent for this waiter's whole patience. All waiters here with no more patience give
    /// up.
    pub(crate) fn unreachable(&self, error: &StoreError) {
        self.subscriptions
            .change(|registry| registry.unreachable(&self.channel, self.waiter, error));
    }

    /// Reports the answer to this waiter's poll: there is nothing to hold. All waiters for the same thing that were
    /// here before the poll stop waiting.
    pub(crate) fn done(&self, record: &Arc<Record>) {
        self.subscriptions
            .change(|registry| registry.tell_done(&self.channel, self.kind, self.waiter, record));
    }

    /// Reports the answer to this waiter's poll: it holds, until `until` if nothing else happens.
    pub(crate) fn granted(mut self, until: Moment) {
        self.granted = Some(until);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let now = self.subscriptions.clock.now();
        self.subscriptions.change_state(|state| {
            state.bells.remove(&self.waiter);
            let registry = &mut state.registry;
            let steps = registry.leave(&self.channel, self.waiter, self.granted, now);
            ((), steps)
        });
    }
}
