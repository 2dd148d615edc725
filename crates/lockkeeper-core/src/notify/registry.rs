//! Who waits on which channel, who of them looks, and what is subscribed to. Pure: no socket, no task, no clock.
//!
//! On each channel the waiters of this client stand in a line. The first is the *scout*: the only one who asks the
//! server. Whatever happens, somebody looks after the last message: a wake is kept on the channel, not by the waiter, and
//! a scout that goes away in the middle of a look hands the look on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::clock::Moment;
use crate::store::StoreError;

/// How long a subscription without waiters is kept: long enough that workers which take turns on a name pay for it once,
/// short enough that a name used once leaves nothing behind.
pub(crate) const LINGER: Duration = Duration::from_secs(5);

/// How long a scout trusts silence. Every known way to lose a message is noticed otherwise; this is for the unknown.
pub(crate) const SAFETY_POLL: Duration = Duration::from_secs(5);

/// How long after a failed subscription it is tried again, unless the store reports a new connection before.
const RETRY: Duration = Duration::from_secs(1);

/// One waiting acquisition, numbered in the order of arrival.
pub(crate) type WaiterId = u64;

/// What the hub has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Subscribe to a channel and report.
    Subscribe(String),
    /// Unsubscribe from a channel and report.
    Unsubscribe(String),
    /// Let a waiter ask for its [`Turn`] again.
    Wake(WaiterId),
    /// Look up when [`Registry::next`] is: it has changed.
    Watch,
}

/// What a waiter does next.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    /// Ask the server now.
    Look,
    /// Nothing before this moment unless woken; `None`: nothing until woken.
    Wait(Option<Moment>),
    /// Waiting is not possible: the server does not let this client subscribe.
    Refused(StoreError),
}

#[derive(Debug)]
enum Subscription {
    None,
    Opening,
    Open,
    Closing,
    Failed {
        retry: Moment,
        refusal: Option<StoreError>,
    },
}

#[derive(Debug)]
struct Channel<R> {
    reader: R,
    line: VecDeque<WaiterId>,
    subscription: Subscription,
    /// Something may have changed since the last look began.
    look: bool,
    /// The scout is asking the server.
    looking: bool,
    /// When the scout looks even if nobody speaks.
    look_at: Moment,
    /// While the line is empty: when the subscription goes.
    linger: Option<Moment>,
}

/// All channels of one client. With each is kept an `R`, which is whatever reads the channel's messages.
#[derive(Debug)]
pub(crate) struct Registry<R> {
    channels: BTreeMap<String, Channel<R>>,
    /// When to look at a channel again. An entry may be out of date; a look at the wrong time finds nothing to do.
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

    /// Who reads the channel's messages; `None` if nobody has waited there lately.
    pub(crate) fn reader(&self, channel: &str) -> Option<&R> {
        self.channels.get(channel).map(|channel| &channel.reader)
    }

    /// A waiter arrives, after the server told it that the name is busy.
    pub(crate) fn join(&mut self, name: &str, reader: R, now: Moment) -> (WaiterId, Vec<Step>) {
        self.arrivals += 1;
        let waiter = self.arrivals;
        let channel = self
            .channels
            .entry(name.to_owned())
            .or_insert_with(|| Channel {
                reader,
                line: VecDeque::new(),
                subscription: Subscription::None,
                look: false,
                looking: false,
                look_at: now.after(SAFETY_POLL),
                linger: None,
            });
        channel.line.push_back(waiter);
        channel.linger = None;
        if channel.line.len() == 1 {
            channel.look_at = now.after(SAFETY_POLL);
            // What happened between the waiter's own look and now was told to nobody.
            channel.look = matches!(channel.subscription, Subscription::Open);
        }
        let steps = channel.open(name);
        (waiter, steps)
    }

    /// What the waiter does next. A [`Turn::Look`] must be followed by [`busy`](Self::busy) or [`leave`](Self::leave).
    pub(crate) fn turn(&mut self, name: &str, waiter: WaiterId, now: Moment) -> Turn {
        let Some(channel) = self.channels.get_mut(name) else {
            return Turn::Wait(None);
        };
        if let Subscription::Failed {
            refusal: Some(refusal),
            ..
        } = &channel.subscription
        {
            return Turn::Refused(refusal.clone());
        }
        if channel.line.front() != Some(&waiter) {
            return Turn::Wait(None);
        }
        if channel.look || now >= channel.look_at {
            channel.look = false;
            channel.looking = true;
            channel.look_at = now.after(SAFETY_POLL);
            return Turn::Look;
        }
        Turn::Wait(Some(channel.look_at))
    }

    /// The scout's look was answered: another claim holds, perhaps until `free`.
    pub(crate) fn busy(&mut self, name: &str, free: Option<Moment>, now: Moment) {
        if let Some(channel) = self.channels.get_mut(name) {
            channel.looking = false;
            channel.set_look_at(free, now);
        }
    }

    /// A waiter goes; `granted` says until when its own lease lasts if it was made the holder.
    pub(crate) fn leave(
        &mut self,
        name: &str,
        waiter: WaiterId,
        granted: Option<Moment>,
        now: Moment,
    ) -> Vec<Step> {
        let Some(channel) = self.channels.get_mut(name) else {
            return Vec::new();
        };
        let scout = channel.line.front() == Some(&waiter);
        channel.line.retain(|&other| other != waiter);
        if scout {
            let unanswered = std::mem::take(&mut channel.looking) && granted.is_none();
            channel.look |= unanswered;
            if granted.is_some() {
                channel.set_look_at(granted, now);
            }
        }
        match channel.line.front() {
            Some(&next) if scout => vec![Step::Wake(next)],
            Some(_) => Vec::new(),
            None => {
                let linger = now.after(LINGER);
                channel.linger = Some(linger);
                self.timers.insert((linger, name.to_owned()));
                vec![Step::Watch]
            }
        }
    }

    /// A subscription is in place: whatever happened before it went unheard.
    pub(crate) fn subscribed(&mut self, name: &str) -> Vec<Step> {
        let Some(channel) = self.channels.get_mut(name) else {
            return Vec::new();
        };
        channel.subscription = Subscription::Open;
        channel.wake()
    }

    /// A subscription failed. `refusal`: the server will not allow it, so nobody can wait on this channel.
    pub(crate) fn subscription_failed(
        &mut self,
        name: &str,
        refusal: Option<StoreError>,
        now: Moment,
    ) -> Vec<Step> {
        let Some(channel) = self.channels.get_mut(name) else {
            return Vec::new();
        };
        let all = if refusal.is_some() {
            channel.line.iter().copied().map(Step::Wake).collect()
        } else {
            Vec::new()
        };
        let retry = now.after(RETRY);
        channel.subscription = Subscription::Failed { retry, refusal };
        self.timers
            .insert((retry.max(channel.linger.unwrap_or(retry)), name.to_owned()));
        all
    }

    /// A subscription has gone; somebody may have arrived meanwhile.
    pub(crate) fn unsubscribed(&mut self, name: &str) -> Vec<Step> {
        let Some(channel) = self.channels.get_mut(name) else {
            return Vec::new();
        };
        channel.subscription = Subscription::None;
        if channel.line.is_empty() {
            self.channels.remove(name);
            return Vec::new();
        }
        channel.open(name)
    }

    /// A message that says "look".
    pub(crate) fn message(&mut self, name: &str) -> Vec<Step> {
        self.channels
            .get_mut(name)
            .map(|channel| channel.wake())
            .unwrap_or_default()
    }

    /// Messages may have been missed on any channel: all scouts look, failed subscriptions are tried again.
    pub(crate) fn gap(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (name, channel) in &mut self.channels {
            steps.extend(channel.wake());
            if let Subscription::Failed { .. } = channel.subscription {
                steps.extend(channel.open(name));
            }
        }
        steps
    }

    /// Does what time has brought due: subscriptions that nobody needs go, failed ones are tried again.
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((moment, name)) = self.timers.pop_first() {
            if moment > now {
                self.timers.insert((moment, name));
                break;
            }
            let Some(channel) = self.channels.get_mut(&name) else {
                continue;
            };
            match (&channel.subscription, channel.linger) {
                (Subscription::Open, Some(linger)) if now >= linger => {
                    channel.subscription = Subscription::Closing;
                    steps.push(Step::Unsubscribe(name));
                }
                (Subscription::None | Subscription::Failed { .. }, Some(linger))
                    if now >= linger =>
                {
                    self.channels.remove(&name);
                }
                (Subscription::Opening, Some(linger)) if now >= linger => {
                    self.timers.insert((now.after(LINGER), name));
                }
                (Subscription::Failed { retry, .. }, None) if now >= *retry => {
                    steps.extend(channel.open(&name));
                }
                _ => {}
            }
        }
        steps
    }

    /// When [`tick`](Self::tick) next has something to do; `None` if never.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.timers.first().map(|&(moment, _)| moment)
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }
}

impl<R> Channel<R> {
    /// Subscribes if somebody waits and nothing is under way; an unsubscription under way is waited for.
    fn open(&mut self, name: &str) -> Vec<Step> {
        let idle = matches!(
            self.subscription,
            Subscription::None | Subscription::Failed { .. }
        );
        if !idle || self.line.is_empty() {
            return Vec::new();
        }
        self.subscription = Subscription::Opening;
        vec![Step::Subscribe(name.to_owned())]
    }

    fn wake(&mut self) -> Vec<Step> {
        let Some(&scout) = self.line.front() else {
            return Vec::new();
        };
        self.look = true;
        vec![Step::Wake(scout)]
    }

    fn set_look_at(&mut self, free: Option<Moment>, now: Moment) {
        let safety = now.after(SAFETY_POLL);
        self.look_at = free.map_or(safety, |free| free.min(safety));
    }
}

#[cfg(test)]
mod tests;
