//! One channel: its local queue, its subscription, and when it needs attention. Pure, like the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::registry::local_queue::LocalQueue;
use crate::words::kind::Kind;
use crate::words::moment::Moment;
use crate::words::owner::Owner;
use crate::words::record::Record;
use crate::words::store_error::StoreError;

/// How long a subscription without waiters is kept: long enough that workers which take turns on a name subscribe only
/// once, short enough that a name used once leaves nothing behind.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// How long at least a poller waits for a message before it polls anyway. Every known way to lose a message is noticed
/// by other means; this is for the unknown ones.
pub(super) const SAFETY_POLL: Duration = Duration::from_secs(5);

/// How soon a poller polls after a connection was lost, unless one is back before: a short interruption costs nothing, and
/// a server that is gone is noticed.
const AFTER_CUT: Duration = Duration::from_secs(1);

/// The shortest average time between polls of a client. A client that waits for very many names polls each of them less
/// often, so that it does not poll the server without end.
pub(super) const BETWEEN_POLLS: Duration = Duration::from_micros(2_500);

/// How soon a failed subscription is tried again, unless the store reports a new connection before.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// The same, if the server refused the subscription and nobody waits for it: the server will refuse until somebody
/// changes its rules.
pub(super) const REFUSED_RETRY: Duration = Duration::from_secs(60);

/// How long a poller may leave its turn unused. Its task may be blocked, or its future may be kept without being
/// polled.
const TURN: Duration = Duration::from_secs(1);

/// How long a poll may take before another waiter also polls.
const LONGEST_LOOK: Duration = SAFETY_POLL;

/// One waiting acquisition, numbered in order of arrival.
pub(crate) type WaiterId = u64;

/// What the engine must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Subscribe to a channel and report the outcome.
    Subscribe(String),
    /// Unsubscribe from a channel and report the outcome.
    Unsubscribe(String),
    /// Wake a waiter, which then asks for its [`Turn`] again.
    Wake(WaiterId),
}

/// What a waiter does next.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    /// Ask the server now.
    Poll,
    /// Wait until this moment unless woken; `None` means until woken.
    Wait(Option<Moment>),
    /// Give up: waiting is not possible, for this reason.
    GiveUp(StoreError),
}

#[derive(Debug)]
pub(super) enum Subscription {
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
pub(super) struct Channel<R> {
    pub(super) reader: R,
    /// How long its poller waits without a message at present.
    pub(super) poll: Duration,
    pub(super) line: LocalQueue,
    /// How many receive the messages without ever polling.
    pub(super) listeners: usize,
    pub(super) subscription: Subscription,
    /// The moment since which something may have changed that no poll has seen.
    pub(super) unseen: Option<Moment>,
    /// The waiter that is polling, and since when.
    pub(super) looking: Option<(WaiterId, Moment)>,
    /// The last waiter that had arrived when that poll began. The answer is valid for all waiters up to that one.
    pub(super) last_looked_for: WaiterId,
    /// When the poller polls even without a message.
    pub(super) look_at: Moment,
    /// The server was unreachable for this long: all waiters up to this one with no more patience than that give up.
    pub(super) unreachable: Option<(WaiterId, Duration, StoreError)>,
    /// The work that locks of this kind were waiting for is done: all waiters up to this one get the outcome.
    pub(super) done: Option<(WaiterId, Kind, Arc<Record>)>,
    /// Waiters that may poll outside the queue, because their owner holds now or because they can hold together with
    /// others.
    pub(super) beside: BTreeSet<WaiterId>,
    /// Waiters that can hold together, each with the number of parts that it asks for. The first of them polls beside the
    /// poller when one of them leaves, or when the poller has to wait on and is not one of them or asks for too much.
    pub(super) sharing: BTreeMap<WaiterId, u32>,
    /// How many parts there are, if the last poll asked for more. Who asks for more than that keeps nobody waiting.
    pub(super) parts: Option<u32>,
    /// When the subscription ends, while the queue is empty.
    pub(super) linger: Option<Moment>,
    /// When [`Registry::tick`] handles it next.
    pub(super) timer: Option<Moment>,
}

impl<R> Channel<R> {
    pub(super) fn new(reader: R, now: Moment) -> Self {
        Self {
            reader,
            poll: SAFETY_POLL,
            line: LocalQueue::default(),
            listeners: 0,
            subscription: Subscription::None,
            unseen: None,
            looking: None,
            last_looked_for: 0,
            look_at: now.after(SAFETY_POLL),
            unreachable: None,
            done: None,
            beside: BTreeSet::new(),
            sharing: BTreeMap::new(),
            parts: None,
            linger: None,
            timer: None,
        }
    }

    pub(super) fn turn(&mut self, waiter: WaiterId, now: Moment) -> Turn {
        if let Subscription::Failed {
            refusal: Some(refusal),
            ..
        } = &self.subscription
        {
            return Turn::GiveUp(refusal.clone());
        }
        if let Some((last, longest, error)) = &self.unreachable
            && waiter <= *last
            && self.line.patience(waiter) <= Some(*longest)
        {
            return Turn::GiveUp(error.clone());
        }
        if self.beside.remove(&waiter) {
            return Turn::Poll;
        }
        if self.line.front() != Some(waiter) {
            return Turn::Wait(None);
        }
        if self.unseen.is_none() && now < self.look_at {
            return Turn::Wait(Some(self.look_at));
        }
        self.unseen = None;
        self.parts = None;
        self.looking = Some((waiter, now));
        self.look_at = now.after(self.poll);
        Turn::Poll
    }

    /// Lets waiters with the same owner as a claim that holds poll: they may be granted the lock beside it.
    pub(super) fn let_in(&mut self, owner: Owner) -> Vec<Step> {
        let same: Vec<WaiterId> = self.line.of(owner).collect();
        self.beside.extend(&same);
        same.into_iter().map(Step::Wake).collect()
    }

    /// Reacts to a poller that was told that others hold. What it waits for may exclude the holders, or be more than there
    /// is, but what other waiters wait for may not. So the first waiter that can hold together with others polls beside it.
    pub(super) fn let_in_beside(&mut self, poller: WaiterId) -> Vec<Step> {
        match self.sharing.contains_key(&poller) && !self.asks_for_too_much(poller) {
            true => Vec::new(),
            false => self.let_in_sharing(),
        }
    }

    /// Whether this waiter asks for more parts than there are.
    pub(super) fn asks_for_too_much(&self, waiter: WaiterId) -> bool {
        let asked = self.sharing.get(&waiter);
        asked.is_some_and(|asked| self.parts.is_some_and(|parts| *asked > parts))
    }

    /// Whether this waiter, which can hold together with others and has just arrived, polls at once: those in front of it
    /// do not poll for it, because they wait for something else or ask for too much.
    pub(super) fn must_poll_for_itself(&self, waiter: WaiterId) -> bool {
        let Some(front) = self.line.front() else {
            return false;
        };
        if !self.sharing.contains_key(&front) {
            return true;
        }
        let mut others = self.line.iter().filter(|it| !self.asks_for_too_much(*it));
        self.asks_for_too_much(front) && others.next() == Some(waiter)
    }

    /// Lets the first of the waiters that can hold together poll: it may be granted the lock beside those that hold. A
    /// waiter that was already told to poll and has not polled since is passed over: its task may be blocked. So is one
    /// that asks for too much.
    pub(super) fn let_in_sharing(&mut self) -> Vec<Step> {
        let asks = |waiter: &WaiterId| {
            let may_hold = self.sharing.contains_key(waiter) && !self.asks_for_too_much(*waiter);
            may_hold && !self.beside.contains(waiter)
        };
        let first = match self.sharing.is_empty() {
            true => None,
            false => self.line.iter().find(asks),
        };
        self.beside.extend(first);
        first.into_iter().map(Step::Wake).collect()
    }

    /// Notes that this poller's request got no answer, and that it asks again. It does so for the time of its own patience;
    /// a waiter with less begins to poll beside it.
    pub(super) fn silent(&mut self, poller: WaiterId) -> Vec<Step> {
        let patience = self.line.patience(poller);
        let hurried = patience.and_then(|patience| self.line.less_patient_than(patience));
        let hurried = hurried.filter(|waiter| self.beside.insert(*waiter));
        hurried.into_iter().map(Step::Wake).collect()
    }

    /// Notes that a connection is lost: the poller polls soon.
    pub(super) fn cut(&mut self, now: Moment) -> Vec<Step> {
        self.look_at = self.look_at.min(now.after(AFTER_CUT));
        self.line.front().into_iter().map(Step::Wake).collect()
    }

    /// Notes that the waiter no longer polls; returns whether it did.
    pub(super) fn answered(&mut self, waiter: WaiterId) -> bool {
        self.looking
            .take_if(|(looking, _)| *looking == waiter)
            .is_some()
    }

    /// Whether nobody waits or listens.
    pub(super) fn deserted(&self) -> bool {
        self.line.is_empty() && self.listeners == 0
    }

    /// Subscribes if somebody waits or listens and nothing is in progress. If an unsubscription is in progress, its end
    /// subscribes again.
    pub(super) fn open(&mut self, name: &str) -> Vec<Step> {
        let idle = matches!(
            self.subscription,
            Subscription::None | Subscription::Failed { .. }
        );
        if !idle || self.deserted() {
            return Vec::new();
        }
        self.subscription = Subscription::Opening;
        vec![Step::Subscribe(name.to_owned())]
    }

    pub(super) fn wake(&mut self, now: Moment) -> Vec<Step> {
        let Some(poller) = self.line.front() else {
            return Vec::new();
        };
        self.unseen.get_or_insert(now);
        vec![Step::Wake(poller)]
    }

    pub(super) fn set_look_at(&mut self, free: Option<Moment>, now: Moment) {
        let safety = now.after(self.poll);
        self.look_at = free.map_or(safety, |free| free.min(safety));
    }

    /// When [`tick`](Self::tick) is needed; `None` if only another event can change anything.
    pub(super) fn due(&self) -> Option<Moment> {
        if self.deserted() {
            let closing = matches!(
                self.subscription,
                Subscription::Opening | Subscription::Closing
            );
            return self.linger.filter(|_| !closing);
        }
        let overdue = (!self.line.is_empty()).then(|| self.overdue());
        match self.subscription {
            Subscription::Failed { retry, .. } => {
                Some(overdue.map_or(retry, |overdue| overdue.min(retry)))
            }
            _ => overdue,
        }
    }

    /// The moment from which on the poller has left its turn unused for too long.
    fn overdue(&self) -> Moment {
        match (self.looking, self.unseen) {
            (Some((_, since)), _) => since.after(LONGEST_LOOK),
            (None, Some(since)) => since.after(TURN),
            (None, None) => self.look_at.after(TURN),
        }
    }

    pub(super) fn look_after(&mut self, name: &str, now: Moment) -> Vec<Step> {
        if self.deserted() {
            if self.due().is_none_or(|linger| now < linger) {
                return Vec::new();
            }
            self.linger = None;
            if !matches!(self.subscription, Subscription::Open) {
                return Vec::new();
            }
            self.subscription = Subscription::Closing;
            return vec![Step::Unsubscribe(name.to_owned())];
        }
        let mut steps = Vec::new();
        if !self.line.is_empty() && now >= self.overdue() {
            self.line.rotate();
            self.looking = None;
            self.unseen = None;
            steps.extend(self.wake(now));
        }
        if matches!(self.subscription, Subscription::Failed { retry, .. } if now >= retry) {
            steps.extend(self.open(name));
        }
        steps
    }
}
