//! Changes of a client, as values. The result depends on the client alone, so it is computed once and remembered.

use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::Moment;
use lockkeeper_core::protocol::Answer;
use lockkeeper_core::store::Outcome;

use super::send::Sending;
use super::state::{Asked, Attempt, Client, Message, Question, Reply, State, Told};
use super::{OneName, TICKS};
use crate::search::state::UnderWay;

/// A change of a client. It contains a tick if the time matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Change {
    /// This tick begins.
    Time(u8),
    /// The sleeping attempts are to look.
    Wake,
    Close(u8),
    Crash,
    /// The client has seen this token.
    RaiseFloor(FencingToken),
    /// A change of one of its attempts.
    Of(u8, Event),
}

/// A change of an attempt. It contains a tick if the time matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Event {
    End(u8),
    OverLimit(bool),
    /// It is revoked until its lease ends, then; or it holds no longer.
    Revoked(Option<Moment>),
    /// The server publishes a message about its grant.
    Published(Message, u8),
    /// A message about its grant arrives.
    Told(Message, u8),
    /// The server executes the request that it waits for.
    Executed(Reply),
    /// The server executes a request that it has given up.
    Overtaken(Asked, Told, u8),
    /// The reply to the request that it waits for arrives.
    Heard(u8),
    /// The request that it waits for gets no reply.
    Failed(Outcome, u8),
    /// Everything that does not matter to progress is forgotten.
    Calm,
}

/// A claimant sends a request for this reason at this tick.
pub(super) type Send = (u8, Sending, u8);

impl OneName {
    /// The state with one client changed.
    pub(super) fn change(&mut self, mut state: State, number: u8, change: Change) -> State {
        let client = &mut state.clients[usize::from(number)];
        *client = self.changed(*client, change);
        state
    }

    /// The number of the client after a change.
    pub(super) fn changed(&mut self, client: u32, change: Change) -> u32 {
        if let Some(&changed) = self.changes.get(&(client, change)) {
            return changed;
        }
        let mut changed = Client::clone(&self.clients.value(client));
        changed.apply(change);
        let changed = self.clients.number(changed);
        self.changes.insert((client, change), changed);
        changed
    }

    /// The client with such a request in flight, if it may be sent.
    pub(super) fn send(
        &mut self,
        client: u32,
        attempt: u8,
        sending: Sending,
        now: u8,
    ) -> Option<(Asked, u32)> {
        let key = (client, (attempt, sending, now));
        if let Some(&sent) = self.sends.get(&key) {
            return sent;
        }
        let sent = self.sent(&self.clients.value(client), attempt, sending, now);
        let sent = sent.map(|(asked, client)| (asked, self.clients.number(client)));
        self.sends.insert(key, sent);
        sent
    }
}

impl Client {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Time(now) => {
                for attempt in &mut self.attempts {
                    attempt.fold(now);
                    attempt.released = attempt.released.filter(|until| *until >= now);
                    attempt.revoked = attempt.revoked.filter(|end| *end > TICKS.moment(now));
                }
            }
            Change::Wake => {
                for attempt in &mut self.attempts {
                    attempt.sleeps = false;
                }
            }
            Change::Close(now) => self.close(now),
            Change::Crash => self.crash(),
            Change::RaiseFloor(token) => self.floor = self.floor.max(token.get()),
            Change::Of(attempt, event) => self.happens(attempt, event),
        }
    }

    fn happens(&mut self, number: u8, event: Event) {
        let attempt = &mut self[number];
        match event {
            Event::End(now) => self.end(number, now),
            Event::OverLimit(over) => attempt.over_limit = over,
            Event::Revoked(until) => attempt.revoked = until,
            Event::Published(message, now) => attempt.publish(message, now),
            Event::Told(message, now) => attempt.told(message, now),
            Event::Executed(reply) => attempt.executed(reply),
            Event::Overtaken(asked, told, now) => attempt.overtaken(asked, told, now),
            Event::Heard(now) => {
                if let Some(UnderWay { asked, reply }) = attempt.requests.under_way
                    && let Some(reply) = reply
                {
                    self.heard(number, asked, reply, now);
                }
            }
            Event::Failed(outcome, now) => {
                if let Some(UnderWay { asked, .. }) = attempt.requests.under_way {
                    self.failed(number, asked, outcome, now);
                }
            }
            Event::Calm => attempt.calm(),
        }
    }
}

impl Attempt {
    /// The request that it waits for is executed, and the reply is in flight.
    fn executed(&mut self, reply: Reply) {
        let Some(under_way) = &mut self.requests.under_way else {
            return;
        };
        under_way.reply = Some(reply);
        if let (Told::Answer(Answer::Busy(_)), _) = reply {
            self.sleeps = under_way.asked.question == Question::Acquire;
        }
    }

    fn calm(&mut self) {
        self.requests.in_doubt.clear();
        self.messages.clear();
        (self.sleeps, self.over_limit) = (false, false);
        (self.released, self.revoked) = (None, None);
    }
}
