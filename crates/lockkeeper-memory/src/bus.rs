//! Messages: which connection listens where, and delivery before the command that publishes returns.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use lockkeeper_core::store::Event;
use tokio::sync::mpsc;

/// One store's end of the bus.
pub(crate) type ConnectionId = u64;

/// What becomes of a connection's events.
#[derive(Debug)]
enum Reader {
    /// Nobody asked for them yet: they begin with the first asking.
    None,
    One(mpsc::UnboundedSender<Event>),
}

/// The connections to one server and the channels they listen on.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    next: ConnectionId,
    readers: BTreeMap<ConnectionId, Reader>,
    /// Those that are taken away for a time, by an injected fault.
    down: BTreeSet<ConnectionId>,
    /// Ordered, so that the order of delivery is the same in every run.
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

    /// Takes a connection away, or brings it back with its subscriptions; its reader is told.
    pub(crate) fn set_down(&mut self, connection: ConnectionId, down: bool) {
        let (changed, event) = match down {
            true => (self.down.insert(connection), Event::Disconnected),
            false => (self.down.remove(&connection), Event::Reconnected),
        };
        if let (true, Some(Reader::One(sender))) = (changed, self.readers.get(&connection)) {
            // A reader that went away has no use for it.
            let _ = sender.send(event);
        }
    }

    /// The events of a connection from now on; `None` if somebody has them, or it is closed.
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

    /// Delivers a message; how many connections listen, as `PUBLISH` answers. A muted bus counts them all the same: a
    /// message lost on the way is one that the server believes delivered.
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
                // A reader that went away has no use for it.
                let _ = sender.send(Event::message(channel, payload));
                self.delivered.set(self.delivered.get() + 1);
            }
        }
        listening
    }

    /// Those that listen on a channel, in order.
    fn listeners(&self, channel: &str) -> impl Iterator<Item = &ConnectionId> {
        let listeners = self.channels.get(channel).into_iter().flatten();
        listeners.filter(|connection| !self.down.contains(connection))
    }
}
