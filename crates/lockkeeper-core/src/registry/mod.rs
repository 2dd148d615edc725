//! The waiters on each channel, which of them polls, and what is subscribed to. Pure: no socket, no task, no clock.
//!
//! On each channel the waiters of this client stand in a queue. The first is the *poller*, the only one that asks the
//! server; a waiter that arrives behind others joins them without asking. Every message is followed by a poll: the wake
//! is stored with the channel, not with the waiter; a poller that leaves during a poll hands the wake on; and a poller
//! that does not use its turn for 1 s, or whose poll takes 5 s, goes to the end.
//!
//! The poller polls once the subscription is confirmed, and then after each wake, when the holder's lease has ended,
//! after a reconnect, 1 s after a connection is lost, and after 5 s without any of these, or later if the client waits for
//! very many names. A poll that finds the name held sets a flag there, so that the release publishes a wake. While a poll
//! stays without an answer, the waiter with the least patience polls beside it.
//!
//! Where claims can hold together without a queue on the server ([`share`](Registry::share)), the first waiter that
//! could hold beside the holders also polls, while the poller waits for a claim that could not, or asks for more parts
//! than there are. When one of them is granted, the next one polls.

mod channel;
pub(crate) mod cohort;
mod local_queue;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::words::kind::Kind;
use crate::words::moment::Moment;
use crate::words::owner::Owner;
use crate::words::record::Record;
use crate::words::store_error::StoreError;
use channel::{BETWEEN_POLLS, Channel, LINGER, REFUSED_RETRY, RETRY, SAFETY_POLL, Subscription};
pub(crate) use channel::{Step, Turn, WaiterId};

/// All channels of one client. Each has an `R`, which reads the channel's messages.
#[derive(Debug)]
pub(crate) struct Registry<R> {
    /// In boxes, because a node of a map has room for eleven, and most clients listen to few.
    channels: BTreeMap<String, Box<Channel<R>>>,
    /// The timer of each channel that has one.
    timers: BTreeSet<(Moment, String)>,
    arrivals: WaiterId,
}

impl<R> Default for Registry<R> {
    fn default() -> Self {
        Self {
            channels: BTreeMap::new(),
            timers: BTreeSet::new(),
            arrivals: 0,
        }
    }
}

impl<R> Registry<R> {
    /// Whether anybody waits on the channel.
    pub(crate) fn crowded(&self, channel: &str) -> bool {
        self.channels
            .get(channel)
            .is_some_and(|channel| !channel.line.is_empty())
    }

    /// Whether the channel is subscribed to.
    pub(crate) fn is_open(&self, channel: &str) -> bool {
        let channel = self.channels.get(channel);
        channel.is_some_and(|channel| matches!(channel.subscription, Subscription::Open))
    }

    /// The server's refusal to subscribe to the channel, if it has refused.
    pub(crate) fn refusal(&self, channel: &str) -> Option<&StoreError> {
        match &self.channels.get(channel)?.subscription {
            Subscription::Failed { refusal, .. } => refusal.as_ref(),
            _ => None,
        }
    }

    /// What reads the channel's messages; `None` if nobody has waited or listened there lately.
    pub(crate) fn reader(&self, channel: &str) -> Option<&R> {
        self.channels.get(channel).map(|channel| &channel.reader)
    }

    /// When [`tick`](Self::tick) next has something to do; `None` if never.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.timers.first().map(|&(moment, _)| moment)
    }

    /// Adds a waiter, with its `owner` if owners of this kind are granted the lock again. It has polled and was told
    /// that the name is held, perhaps until `free`. If no message comes, the first waiter polls again then. It tolerates a
    /// silent server for its `patience`.
    pub(crate) fn join(
        &mut self,
        name: &str,
        reader: R,
        owner: Option<Owner>,
        patience: Duration,
        free: Option<Moment>,
        now: Moment,
    ) -> (WaiterId, Vec<Step>) {
        self.arrivals += 1;
        let waiter = self.arrivals;
        self.channels
            .entry(name.to_owned())
            .or_insert_with(|| Box::new(Channel::new(reader, now)));
        let steps = self.at(name, |channel| {
            channel.line.push_back(waiter, owner, patience);
            channel.linger = None;
            if channel.line.len() == 1 {
                channel.set_look_at(free, now);
                // No waiter heard of what happened between this waiter's own poll and now.
                let open = matches!(channel.subscription, Subscription::Open);
                channel.unseen = open.then_some(now);
            }
            channel.open(name)
        });
        (waiter, steps)
    }

    /// Notes that this waiter, which has just arrived, can hold together with others of its sort, whatever the waiters
    /// in front of it wait for, and asks for this many parts. If the first waiter cannot, this one polls once more: it may
    /// have asked before a change that the first has seen.
    pub(crate) fn share(&mut self, name: &str, waiter: WaiterId, parts: u32) {
        self.at(name, |channel| {
            channel.sharing.insert(waiter, parts);
            if channel.must_poll_for_itself(waiter) {
                channel.beside.insert(waiter);
            }
            Vec::new()
        });
    }

    /// Notes that a poll asked for more parts than there are, before [`busy`](Self::busy) reports its answer.
    pub(crate) fn has_parts(&mut self, name: &str, parts: u32) {
        self.at(name, |channel| {
            channel.parts = Some(parts);
            Vec::new()
        });
    }

    /// Adds a listener, which receives the channel's messages without waiting for anything.
    pub(crate) fn listen(&mut self, name: &str, reader: R, now: Moment) -> Vec<Step> {
        self.channels
            .entry(name.to_owned())
            .or_insert_with(|| Box::new(Channel::new(reader, now)));
        self.at(name, |channel| {
            channel.listeners += 1;
            channel.linger = None;
            channel.open(name)
        })
    }

    /// Removes a listener.
    pub(crate) fn turn_away(&mut self, name: &str, now: Moment) -> Vec<Step> {
        self.at(name, |channel| {
            channel.listeners = channel.listeners.saturating_sub(1);
            if channel.deserted() {
                channel.linger = Some(now.after(LINGER));
            }
            Vec::new()
        })
    }

    /// What the waiter does next. A [`Turn::Poll`] must be followed by [`busy`](Self::busy), [`leave`](Self::leave) or
    /// [`unreachable`](Self::unreachable).
    pub(crate) fn turn(&mut self, name: &str, waiter: WaiterId, now: Moment) -> Turn {
        let mut turn = Turn::Wait(None);
        let last = self.arrivals;
        self.at(name, |channel| {
            turn = channel.turn(waiter, now);
            if let Turn::Poll = turn {
                channel.last_looked_for = last;
            }
            Vec::new()
        });
        turn
    }

    /// Reports the answer to the waiter's poll: another claim holds, perhaps until `free`.
    pub(crate) fn busy(
        &mut self,
        name: &str,
        waiter: WaiterId,
        free: Option<Moment>,
        now: Moment,
    ) -> Vec<Step> {
        self.at(name, |channel| {
            if channel.answered(waiter) {
                channel.set_look_at(free, now);
            } else if !channel.asks_for_too_much(waiter) {
                return Vec::new();
            }
            channel.let_in_beside(waiter)
        })
    }

    /// Reports that a request of this poller got no answer; it asks again.
    pub(crate) fn silent(&mut self, name: &str, poller: WaiterId) -> Vec<Step> {
        self.at(name, |channel| channel.silent(poller))
    }

    /// Reports that the server was silent for the whole patience of this waiter. All with no more patience give up with
    /// it.
    pub(crate) fn unreachable(
        &mut self,
        name: &str,
        waiter: WaiterId,
        error: &StoreError,
    ) -> Vec<Step> {
        let last = self.arrivals;
        self.at(name, |channel| {
            let patience = channel.line.patience(waiter).unwrap_or_default();
            channel.unreachable = Some((last, patience, error.clone()));
            channel.line.iter().map(Step::Wake).collect()
        })
    }

    /// Reports the answer to the waiter's poll: the work that locks of this kind were waiting for is done. All waiters
    /// for this kind that arrived before the poll get the outcome and need not poll. Later waiters may wait for work
    /// that began after it.
    pub(crate) fn tell_done(
        &mut self,
        name: &str,
        kind: Kind,
        waiter: WaiterId,
        record: &Arc<Record>,
    ) -> Vec<Step> {
        self.at(name, |channel| {
            let last = match channel.looking {
                Some((looking, _)) if looking == waiter => channel.last_looked_for,
                _ => waiter,
            };
            channel.done = Some((last, kind, Arc::clone(record)));
            channel.line.iter().map(Step::Wake).collect()
        })
    }

    /// Returns the outcome of the work that this waiter waits for with a lock of this kind, if a poll that began after
    /// the waiter's arrival has reported it.
    pub(crate) fn done(&self, name: &str, kind: Kind, waiter: WaiterId) -> Option<Arc<Record>> {
        let (last, of, record) = self.channels.get(name)?.done.as_ref()?;
        (waiter <= *last && kind == *of).then(|| Arc::clone(record))
    }

    /// Notes that a claim of `owner` holds, of a kind that grants it the lock again.
    pub(crate) fn granted(&mut self, name: &str, owner: Owner) -> Vec<Step> {
        self.at(name, |channel| channel.let_in(owner))
    }

    /// Removes a waiter. If it became the holder, `granted` is when its lease ends.
    pub(crate) fn leave(
        &mut self,
        name: &str,
        waiter: WaiterId,
        granted: Option<Moment>,
        now: Moment,
    ) -> Vec<Step> {
        self.at(name, |channel| {
            let poller = channel.line.front() == Some(waiter);
            let owner = channel.line.remove(waiter);
            channel.beside.remove(&waiter);
            let shared = channel.sharing.remove(&waiter).is_some();
            if channel.line.is_empty() {
                channel.done = None;
            }
            if channel.answered(waiter) && granted.is_none() {
                channel.unseen.get_or_insert(now);
            }
            if granted.is_some() {
                channel.set_look_at(granted, now);
            }
            if channel.deserted() {
                channel.linger = Some(now.after(LINGER));
            }
            let mut steps = match (granted, owner) {
                (Some(_), Some(owner)) => channel.let_in(owner),
                _ => Vec::new(),
            };
            let next = channel.line.front().filter(|_| poller);
            steps.extend(next.map(Step::Wake));
            // If the waiter holds now, the next one can hold beside it. If not, it may have had a turn that it did not
            // use.
            if shared {
                steps.extend(channel.let_in_sharing());
            }
            steps
        })
    }

    /// Notes that a subscription is in place. Earlier messages were not received, so the poller polls.
    pub(crate) fn subscribed(&mut self, name: &str, now: Moment) -> Vec<Step> {
        self.at(name, |channel| {
            channel.subscription = Subscription::Open;
            channel.wake(now)
        })
    }

    /// Notes that a subscription failed. `refusal` means that the server does not allow it, so nobody can wait on this
    /// channel.
    pub(crate) fn subscription_failed(
        &mut self,
        name: &str,
        refusal: Option<StoreError>,
        now: Moment,
    ) -> Vec<Step> {
        self.at(name, |channel| {
            let all = if refusal.is_some() {
                channel.line.iter().map(Step::Wake).collect()
            } else {
                Vec::new()
            };
            let unwanted = refusal.is_some() && channel.line.is_empty();
            let retry = now.after(if unwanted { REFUSED_RETRY } else { RETRY });
            channel.subscription = Subscription::Failed { retry, refusal };
            all
        })
    }

    /// Notes that a subscription has ended. Subscribes again if somebody has arrived in the meantime.
    pub(crate) fn unsubscribed(&mut self, name: &str) -> Vec<Step> {
        self.at(name, |channel| {
            channel.subscription = Subscription::None;
            channel.open(name)
        })
    }

    /// Applies a message that tells a waiter to poll.
    pub(crate) fn message(&mut self, name: &str, now: Moment) -> Vec<Step> {
        self.at(name, |channel| channel.wake(now))
    }

    /// Notes that a claim of this client has been released, and wakes the poller unless the message does that. The
    /// message also reaches this client, unless it was not published (`told`) or the channel is not subscribed to here.
    pub(crate) fn left(&mut self, name: &str, told: bool, now: Moment) -> Vec<Step> {
        self.at(name, |channel| {
            let heard = told && matches!(channel.subscription, Subscription::Open);
            if heard { Vec::new() } else { channel.wake(now) }
        })
    }

    /// Notes that messages may have been missed on any channel: all pollers poll, and failed subscriptions are tried
    /// again.
    pub(crate) fn gap(&mut self, now: Moment) -> Vec<Step> {
        self.at_all(|name, channel| {
            let mut steps = channel.wake(now);
            if let Subscription::Failed { .. } = channel.subscription {
                steps.extend(channel.open(name));
            }
            steps
        })
    }

    /// Notes that a connection is lost: all pollers poll soon, to notice if the server is gone.
    pub(crate) fn cut(&mut self, now: Moment) -> Vec<Step> {
        self.at_all(|_, channel| channel.cut(now))
    }

    fn at_all(&mut self, mut change: impl FnMut(&str, &mut Channel<R>) -> Vec<Step>) -> Vec<Step> {
        let names: Vec<String> = self.channels.keys().cloned().collect();
        let mut steps = Vec::new();
        for name in names {
            steps.extend(self.at(&name, |channel| change(&name, channel)));
        }
        steps
    }

    /// Does what is due: ends subscriptions that nobody needs, retries failed ones, and moves a poller that has not
    /// used its turn to the end of the queue.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<Step> {
        let mut steps = Vec::new();
        while self.next().is_some_and(|moment| moment <= now) {
            let Some((_, name)) = self.timers.pop_first() else {
                break;
            };
            steps.extend(self.at(&name, |channel| {
                channel.timer = None;
                channel.look_after(&name, now)
            }));
        }
        steps
    }

    /// Changes one channel and updates its timer; removes the channel if it has nothing to remember.
    fn at(&mut self, name: &str, change: impl FnOnce(&mut Channel<R>) -> Vec<Step>) -> Vec<Step> {
        let poll = self.poll();
        let Some(channel) = self.channels.get_mut(name) else {
            return Vec::new();
        };
        channel.poll = poll;
        let steps = change(channel);
        let (due, timer) = (channel.due(), channel.timer);
        // A timer that is too early does no harm: it finds nothing to do and is set again.
        if let Some(due) = due.filter(|due| timer.is_none_or(|timer| *due < timer)) {
            if let Some(timer) = timer {
                self.timers.remove(&(timer, name.to_owned()));
            }
            channel.timer = Some(due);
            self.timers.insert((due, name.to_owned()));
        }
        let idle = matches!(
            channel.subscription,
            Subscription::None | Subscription::Failed { .. }
        );
        if channel.deserted() && channel.linger.is_none() && idle {
            if let Some(timer) = channel.timer {
                self.timers.remove(&(timer, name.to_owned()));
            }
            self.channels.remove(name);
        }
        steps
    }

    /// How long a poller waits without a message: longer if there are very many names.
    fn poll(&self) -> Duration {
        let names = u32::try_from(self.channels.len()).unwrap_or(u32::MAX);
        SAFETY_POLL.max(BETWEEN_POLLS.saturating_mul(names))
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.timers.is_empty()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
