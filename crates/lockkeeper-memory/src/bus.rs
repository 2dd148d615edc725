//! Messages: which connection listens on which channel, and delivery before the publishing command returns.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use lockkeeper_core::store::Event;
use tokio::sync::mpsc;

/// A connection of one store.
pub(crate) type ConnectionId = u64;

/// Where a connection's events go.
#[derive(Debug)]
enum Reader {
    /// Nobody has asked for them yet: they start with the first request.
    None,
    One(mpsc::UnboundedSender<Event>),
}

/// The connections to one server and the channels they listen on.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    next: ConnectionId,
    readers: BTreeMap<ConnectionId, Reader>,
    /// Connections that an injected fault has cut for a time.
    down: BTreeSet<ConnectionId>,
    /// Ordered, so that every run delivers in the same order.
    channels: BTreeMap<String, BTreeSet<ConnectionId>>,
    pub(crate) muted: bool,
    /// How many messages have reached a reader.
    delivered: Cell<u64>,
}

impl Bus {
    pub(crate) fn connect(&mut self) -> ConnectionId {
        self.next += 1;
        self.readers.insert(self.next, Reader::None);
        self.next
    }

    pub(crate) fn disconnect(&mut self, connection: ConnectionId) {
        self.readers.remove(&connection);
        self.down.remove(&connection);
        self.channels.retain(|_, listeners| {
            listeners.remove(&connection);
            !listeners.is_empty()
        });
    }

    pub(crate) fn is_connected(&self, connection: ConnectionId) -> bool {
        self.readers.contains_key(&connection)
    }

    pub(crate) fn is_down(&self, connection: ConnectionId) -> bool {
        self.down.contains(&connection)
    }

    /// Cuts a connection, or restores it with its subscriptions, and tells its reader.
    pub(crate) fn set_down(&mut self, connection: ConnectionId, down: bool) {
        let (changed, event) = match down {
            true => (self.down.insert(connection), Event::Disconnected),
            false => (self.down.remove(&connection), Event::Reconnected),
        };
        if let (true, Some(Reader::One(sender))) = (changed, self.readers.get(&connection)) {
            // A reader that is gone does not need it.
            let _ = sender.send(event);
        }
    }

    /// The events of a connection from now on; `None` if they were taken already, or the connection is closed.
    pub(crate) fn events(
        &mut self,
        connection: ConnectionId,
    ) -> Option<mpsc::UnboundedReceiver<Event>> {
        let reader = self.readers.get_mut(&connection)?;
        let Reader::None = reader else { return None };
        let (sender, receiver) = mpsc::unbounded_channel();
        *reader = Reader::One(sender);
        Some(receiver)
    }

    pub(crate) fn subscribe(&mut self, connection: ConnectionId, channel: &str) {
        self.channels
            .entry(channel.to_owned())
            .or_default()
            .insert(connection);
    }

    pub(crate) fn unsubscribe(&mut self, connection: ConnectionId, channel: &str) {
        if let Some(listeners) = self.channels.get_mut(channel) {
            listeners.remove(&connection);
            if listeners.is_empty() {
                self.channels.remove(channel);
            }
        }
    }

    /// How many connections listen on a channel.
    pub(crate) fn listening(&self, channel: &[u8]) -> usize {
        let channel = str::from_utf8(channel).ok();
        channel.map_or(0, |channel| self.listeners(channel).count())
    }

    /// How many messages have reached a reader so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.get()
    }

    /// Delivers a message. Returns how many connections listen, as `PUBLISH` answers. A muted bus counts them too: the server takes
    /// a message that is lost on the way for a delivered one.
    pub(crate) fn publish(&self, channel: &[u8], payload: &[u8]) -> usize {
        let Ok(channel) = str::from_utf8(channel) else {
            return 0;
        };
        let mut listening = 0;
        for connection in self.listeners(channel) {
            listening += 1;
            if !self.muted
                && let Some(Reader::One(sender)) = self.readers.get(connection)
            {
                // A reader that is gone does not need it.
                let _ = sender.send(Event::message(channel, payload));
                self.delivered.set(self.delivered.get() + 1);
            }
        }
        listening
    }

    /// The connections that listen on a channel, in order.
    fn listeners(&self, channel: &str) -> impl Iterator<Item = &ConnectionId> {
        let listeners = self.channels.get(channel).into_iter().flatten();
        listeners.filter(|connection| !self.down.contains(connection))
    }
}
