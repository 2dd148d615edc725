//! The connections of all clients, the state of the servers behind them, and the agenda: what arrives when, in an order that
//! the seed determines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::{Call, Event, Reply, Store as _, StoreError};
use lockkeeper_memory::MemoryStore;
use tokio::sync::{mpsc, oneshot};

use super::fate::{Fate, Fates};
use super::plan::{Chances, Plan};

/// What a caller receives: a reply, or `None` for a request that has none.
pub(super) type Answer = Result<Option<Reply>, StoreError>;

/// What a client sends to the server.
#[derive(Debug)]
pub(super) enum Parcel {
    Call(Call),
    Subscribe(String),
    Unsubscribe(String),
}

/// Something that happens at a planned time.
#[derive(Debug)]
pub(super) enum Action {
    Arrive {
        link: usize,
        ticket: u64,
        sent: Duration,
        parcel: Parcel,
    },
    Answer {
        link: usize,
        ticket: u64,
        answer: Answer,
    },
    Tell {
        link: usize,
        event: Event,
    },
    Mend {
        link: usize,
    },
    /// A killed server comes back without its data.
    Revive {
        server: usize,
    },
}

/// The faults of a server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Machine {
    /// It was killed and is not back yet.
    pub(super) killed: bool,
    /// It executes nothing before this time.
    pub(super) frozen: Duration,
    /// Since when it has been frozen without a break, if it is.
    pub(super) frozen_since: Duration,
    /// Its messages reach no client before this time.
    pub(super) silent: Duration,
}

/// One client's connections to one server.
#[derive(Debug)]
pub(super) struct Link {
    /// The number of the server.
    pub(super) server: usize,
    pub(super) inner: Arc<MemoryStore>,
    pub(super) published: Option<mpsc::UnboundedReceiver<Event>>,
    pub(super) events: Option<mpsc::UnboundedSender<Event>>,
    pub(super) receiver: Option<mpsc::UnboundedReceiver<Event>>,
    /// No request of the present connection arrives before this time, unless the network keeps no order.
    pub(super) arrival: Duration,
    /// No event is heard before this time.
    hearing: Duration,
    /// The connections are broken.
    pub(super) down: bool,
    /// When they work again, if no other fault breaks them.
    pub(super) mended: Duration,
    pub(super) closed: bool,
    /// The client is being closed, so its calls may fail with that.
    pub(super) closing: bool,
    /// The client does not run before this time.
    pub(super) paused: Duration,
    /// Callers that wait for a reply, by ticket.
    pub(super) waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
    pub(super) subscribed: BTreeSet<String>,
}

/// The simulated network.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) fates: Fates,
    pub(super) chances: Chances,
    pub(super) agenda: BTreeMap<(Duration, u64), (Action, Fate)>,
    /// The last number of an action or a ticket.
    count: u64,
    pub(super) links: Vec<Link>,
    /// One per server.
    pub(super) machines: Vec<Machine>,
}

impl Network {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            fates: Fates::new(plan.seed_of(1)),
            chances: plan.chances,
            agenda: BTreeMap::new(),
            count: 0,
            links: Vec::new(),
            machines: vec![Machine::default(); plan.servers],
        }
    }

    /// Connects a new client to the server with this number, and returns the number of its link.
    pub(super) fn connect(&mut self, server: usize, store: &MemoryStore) -> usize {
        let inner = Arc::new(store.sibling());
        let (events, receiver) = mpsc::unbounded_channel();
        self.links.push(Link {
            server,
            published: inner.events(),
            inner,
            events: Some(events),
            receiver: Some(receiver),
            arrival: Duration::ZERO,
            hearing: Duration::ZERO,
            down: false,
            mended: Duration::ZERO,
            closed: false,
            closing: false,
            paused: Duration::ZERO,
            waiting: BTreeMap::new(),
            subscribed: BTreeSet::new(),
        });
        self.links.len() - 1
    }

    pub(super) fn put_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub(super) fn put(&mut self, at: Duration, action: Action, fate: Fate) {
        let number = self.put_number();
        self.agenda.insert((at, number), (action, fate));
    }

    pub(super) fn next(&self) -> Option<Duration> {
        self.agenda.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Puts an event into a client's stream, behind those in flight.
    pub(super) fn put_event(&mut self, link: usize, at: Duration, event: Event, fate: Fate) {
        let at = at.max(self.links[link].hearing);
        self.links[link].hearing = at;
        self.put(at, Action::Tell { link, event }, fate);
    }

    /// Tells a client that it may have missed messages.
    pub(super) fn tell_of_gap(&mut self, link: usize, now: Duration) {
        let fate = self.fates.of(link, "gap".to_owned());
        self.put_event(link, now, Event::Reconnected, fate);
    }

    /// Breaks a client's connections for up to this many milliseconds. Waiting callers get an error. What is in flight may
    /// still arrive, unless the server itself went down.
    pub(super) fn cut(
        &mut self,
        link: usize,
        now: Duration,
        down: u64,
        latest: Duration,
        server: bool,
    ) {
        if self.links[link].closed {
            return;
        }
        let waiting = std::mem::take(&mut self.links[link].waiting);
        let mut on_their_way = Vec::new();
        for (&(at, number), (action, _)) in &self.agenda {
            if let Action::Arrive {
                link: whose,
                sent,
                parcel,
                ..
            } = action
                && *whose == link
            {
                let call = matches!(parcel, Parcel::Call(_));
                on_their_way.push(((at, number), call, *sent));
            }
        }
        for (key, call, sent) in on_their_way {
            let Some((action, mut fate)) = self.agenda.remove(&key) else {
                continue;
            };
            if server || !call {
                continue;
            }
            match fate.0.u8(..3) {
                0 => {}
                1 => {
                    let end = (sent + latest).max(key.0);
                    let late = end.saturating_sub(now).as_millis();
                    let at = fate.within(now, u64::try_from(late).unwrap_or(0)).max(now);
                    self.put(at, action, fate);
                }
                _ => drop(self.agenda.insert(key, (action, fate))),
            }
        }
        let mut fate = self.fates.of(link, "cut".to_owned());
        for (ticket, sender) in waiting {
            self.links[link].waiting.insert(ticket, sender);
            let answer = Err(StoreError::unknown("the connection broke"));
            let action = Action::Answer {
                link,
                ticket,
                answer,
            };
            self.put(now, action, fate.clone());
        }
        self.links[link].arrival = now;
        self.links[link].down = true;
        self.put_event(link, now, Event::Disconnected, fate.clone());
        // Not at once: a failover takes some time, and tokens count microseconds.
        let mended = fate.within(now + Duration::from_millis(5), down);
        self.links[link].mended = self.links[link].mended.max(mended);
        self.put(mended, Action::Mend { link }, fate);
    }

    pub(super) fn is_waited_for(&self, link: usize, ticket: u64) -> bool {
        let waiting = self.links[link].waiting.get(&ticket);
        waiting.is_some_and(|sender| !sender.is_closed())
    }

    /// Records that the client's process is gone.
    pub(super) fn close(&mut self, link: usize) {
        let link = &mut self.links[link];
        link.closed = true;
        link.events = None;
        link.waiting.clear();
        link.subscribed.clear();
    }
}
