//! Channels to which the client subscribes only while it needs their messages.

use std::sync::{Arc, Weak};

use tokio::sync::{Notify, watch};

use crate::engine::subscriptions::presence::Subscription;
use crate::engine::subscriptions::{Reader, Subscriptions};
use crate::seam::protocol::Protocol;
use crate::words::store_error::StoreError;

impl Subscriptions {
    /// Reports every message on the channel, and every moment after which a message may have been missed.
    pub(crate) fn watch(self: &Arc<Self>, channel: &str) -> (Subscription, watch::Receiver<()>) {
        let now = self.clock.now();
        let changes = self.change_state(|state| {
            let watched = state.watched.entry(channel.to_owned()).or_default();
            let changes = watched.subscribe();
            (changes, state.registry.listen(channel, Reader::Queue, now))
        });
        (Subscription::new(self, channel.to_owned()), changes)
    }

    /// Whether the channel is subscribed to, so that every message on it arrives.
    pub(crate) fn hears(&self, channel: &str) -> bool {
        self.with(|state| state.registry.is_open(channel))
    }

    /// Why no message on the channel will ever arrive, if the server refused the subscription.
    pub(crate) fn refusal(&self, channel: &str) -> Option<StoreError> {
        self.with(|state| state.registry.refusal(channel).cloned())
    }

    /// Keeps listening for grants on the channel, if it is subscribed to now.
    pub(crate) fn keep_hearing(self: &Arc<Self>, channel: &str) -> Option<Subscription> {
        let now = self.clock.now();
        let open = self.change_state(|state| {
            if state.registry.is_open(channel) {
                (true, state.registry.listen(channel, Reader::Queue, now))
            } else {
                (false, Vec::new())
            }
        });
        open.then(|| Subscription::new(self, channel.to_owned()))
    }

    /// Starts to listen for grants on the channel. Notifies when it is subscribed to, or when the server has refused
    /// that.
    pub(crate) fn begin_hearing(self: &Arc<Self>, channel: &str) -> (Subscription, Arc<Notify>) {
        let now = self.clock.now();
        let opening = self.change_state(|state| {
            let steps = state.registry.listen(channel, Reader::Queue, now);
            let known = state.openings.get(channel).and_then(Weak::upgrade);
            let opening = known.unwrap_or_default();
            if !state.registry.is_open(channel) {
                let weak = Arc::downgrade(&opening);
                state.openings.insert(channel.to_owned(), weak);
            }
            (opening, steps)
        });
        (Subscription::new(self, channel.to_owned()), opening)
    }

    /// Listens for the end of any hold on `protocol`'s name while the returned subscription lives. Only for a name that
    /// other libraries use too, because their holders send no message.
    pub(super) fn hear_of_key(self: &Arc<Self>, protocol: &dyn Protocol) -> Option<Subscription> {
        let shared = protocol.name().is_shared() && protocol.queue().is_none();
        let store = self.keyspace.as_ref().filter(|_| shared)?;
        let channel = store.keyspace_channel(protocol.name().main())?;
        let reader = Reader::Key(protocol.channel());
        let now = self.clock.now();
        self.change(|registry| registry.listen(&channel, reader, now));
        Some(Subscription::new(self, channel))
    }
}

/// Whether a keyspace notification says that the key is gone. A change of its value or expiry does not count.
pub(super) fn is_gone(event: &[u8]) -> bool {
    matches!(event, b"del" | b"expired" | b"evicted" | b"rename_from")
}
