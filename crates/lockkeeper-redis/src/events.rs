//! The stream of events, and the rule for [`Event::Reconnected`]: it is sent only when both connections are up, because it promises
//! that requests run and that every subscription is in place. In a cluster it is sent whenever a node is back, whatever the state
//! of the others: each node sends its own when it is back, for the messages that it missed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lockkeeper_core::store::Event;
use tokio::sync::mpsc;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Scripts,
    Messages,
    /// The connection for scripts to one node of several.
    NodeScripts,
    /// The connection for messages to one node of several.
    NodeMessages,
}

impl Purpose {
    /// Its name in logs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Scripts | Self::NodeScripts => "scripts",
            Self::Messages | Self::NodeMessages => "messages",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sink: Sink,
    scripts_down: bool,
    messages_down: bool,
}

#[derive(Debug, Default)]
enum Sink {
    /// Nobody has asked for the stream yet: events are dropped.
    #[default]
    Unasked,
    Open(mpsc::UnboundedSender<Event>),
    Ended,
}

impl Events {
    /// The stream, on the first call.
    pub(crate) fn stream(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        let mut state = self.lock();
        let Sink::Unasked = state.sink else {
            return None;
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        state.sink = Sink::Open(sender);
        Some(receiver)
    }

    /// A message has arrived.
    pub(crate) fn message(&self, channel: &str, payload: &[u8]) {
        self.lock().tell(Event::message(channel, payload));
    }

    /// A connection has ended.
    pub(crate) fn lost(&self, purpose: Purpose) {
        let mut state = self.lock();
        state.set_down(purpose, true);
        state.tell(Event::Disconnected);
    }

    /// A connection is back, with its subscriptions in place.
    pub(crate) fn restored(&self, purpose: Purpose) {
        let mut state = self.lock();
        state.set_down(purpose, false);
        state.tell_reconnected();
    }

    /// Messages were missed, or the server may be another one, although the connections hold.
    pub(crate) fn missed(&self) {
        self.lock().tell_reconnected();
    }

    /// No more events are sent.
    pub(crate) fn end(&self) {
        self.lock().sink = Sink::Ended;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    const fn set_down(&mut self, purpose: Purpose, down: bool) {
        match purpose {
            Purpose::Scripts => self.scripts_down = down,
            Purpose::Messages => self.messages_down = down,
            Purpose::NodeScripts | Purpose::NodeMessages => {}
        }
    }

    /// While a connection is down this sends nothing: `restored` will.
    fn tell_reconnected(&self) {
        if !self.scripts_down && !self.messages_down {
            self.tell(Event::Reconnected);
        }
    }

    fn tell(&self, event: Event) {
        if let Sink::Open(sender) = &self.sink {
            // An error means that the engine is gone and no longer reads events.
            let _ = sender.send(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(stream: &mut mpsc::UnboundedReceiver<Event>) -> Vec<Event> {
        std::iter::from_fn(|| stream.try_recv().ok()).collect()
    }

    #[test]
    fn reconnected_is_told_when_the_last_connection_is_back() {
        let events = Events::default();
        let mut stream = events.stream().unwrap();
        events.lost(Purpose::Scripts);
        events.lost(Purpose::Messages);
        events.restored(Purpose::Scripts);
        assert_eq!(
            drain(&mut stream),
            [Event::Disconnected, Event::Disconnected]
        );
        events.missed();
        assert_eq!(drain(&mut stream), []);
        events.restored(Purpose::Messages);
        assert_eq!(drain(&mut stream), [Event::Reconnected]);
        events.missed();
        assert_eq!(drain(&mut stream), [Event::Reconnected]);
    }

    #[test]
    fn a_node_that_is_back_is_told_of_whatever_the_others_do() {
        let events = Events::default();
        let mut stream = events.stream().unwrap();
        events.lost(Purpose::NodeScripts);
        events.lost(Purpose::NodeMessages);
        events.restored(Purpose::NodeScripts);
        let told = [Event::Disconnected, Event::Disconnected, Event::Reconnected];
        assert_eq!(drain(&mut stream), told);
    }

    #[test]
    fn the_stream_is_given_once_and_ends_with_the_store() {
        let events = Events::default();
        events.message("early", b"");
        let mut stream = events.stream().unwrap();
        assert!(events.stream().is_none());
        events.message("channel", b"payload");
        events.end();
        assert_eq!(
            stream.blocking_recv(),
            Some(Event::message("channel", "payload"))
        );
        assert_eq!(stream.blocking_recv(), None);
        assert!(events.stream().is_none());
    }
}
