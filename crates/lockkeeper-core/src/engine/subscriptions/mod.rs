//! The subscriptions of a client: one event stream per client, one subscription per contended name.
//!
//! [`registry`](crate::registry) decides; this module carries it out. The task reads the store's events, subscribes and
//! unsubscribes, and never waits for a single channel.

mod listening;
mod place;
pub(crate) mod presence;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use uuid::Uuid;

use crate::engine::claims::Claims;
use crate::engine::part::Part;
use crate::engine::requester::Requester;
use crate::engine::sync::Mutex;
use crate::registry::{Registry, Step, WaiterId};
use crate::schedule::tally::Tally;
use crate::seam::clock::{Clock, sleep_until_some};
use crate::seam::observer::ClientEvent;
use crate::seam::protocol::{Grant, IsWake, Protocol};
use crate::seam::store::{Event, Store};
use crate::words::moment::Moment;
use crate::words::owner::Owner;
use crate::words::store_error::{Outcome, StoreError};
use listening::is_gone;
pub(crate) use place::{Over, Place};
use presence::{Introduction, Presence, Subscription, client_channel};

/// Where acquisitions wait for messages.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    state: Mutex<State>,
    orders: mpsc::UnboundedSender<Order>,
    clock: Arc<dyn Clock>,
    presence: Presence,
    /// Names the channels of keyspace notifications; `None` if they are not used.
    keyspace: Option<Arc<dyn Store>>,
    /// The client's label has been written, and is written again while the client holds anything.
    introduced: AtomicBool,
    /// The client listens to its own channel, for the rest of its life.
    listening: AtomicBool,
}

/// What reads the messages of a channel.
#[derive(Debug, Clone)]
enum Reader {
    /// Waiters: a wake tells one of them to ask again.
    Waiters(IsWake),
    /// This client: the messages are about the claims of owners that the client with this id has made.
    Client(Uuid),
    /// Claims that wait in a queue: the messages report their grants.
    Queue,
    /// The waiters on this other channel: they must ask again when the key is gone.
    Key(String),
}

#[derive(Debug, Default)]
struct State {
    registry: Registry<Reader>,
    bells: BTreeMap<WaiterId, Arc<Notify>>,
    /// Notified when the channel is subscribed to, or the server has refused that.
    openings: BTreeMap<String, Weak<Notify>>,
    /// The watchers of a channel, which are notified of every message.
    watched: BTreeMap<String, Watched>,
    /// Failed subscriptions, for the log.
    failures: Tally,
}

/// Notifies the watchers of one channel, which wakes them: only while the state is not locked.
type Watched = Arc<watch::Sender<()>>;

/// An order to the task.
#[derive(Debug)]
enum Order {
    Subscribe(String),
    Unsubscribe(String),
    /// Wake up and set the timer again, because the registry needs it sooner.
    SetTimer,
    /// Write the client's label.
    Introduce,
    /// Send the server what the kind of a claim that holds proclaims.
    Proclaim(Arc<Part>),
    /// Write the note of a claim.
    Annotate(Arc<Part>),
}

impl Subscriptions {
    /// Returns the subscriptions of a store, whose `events` they read, and the future that runs them until every handle
    /// is gone.
    pub(crate) fn new(
        requester: Arc<Requester>,
        events: mpsc::UnboundedReceiver<Event>,
        presence: Presence,
        keyspace: bool,
    ) -> (Arc<Self>, impl Future<Output = ()>) {
        let (orders, inbox) = mpsc::unbounded_channel();
        let subscriptions = Arc::new(Self {
            state: Mutex::default(),
            orders,
            clock: Arc::clone(&requester.clock),
            presence,
            keyspace: keyspace.then(|| Arc::clone(&requester.store)),
            introduced: AtomicBool::new(false),
            listening: AtomicBool::new(false),
        });
        let task = run(Arc::downgrade(&subscriptions), requester, events, inbox);
        (subscriptions, task)
    }

    /// Whether another acquisition of this client already waits for the name.
    pub(crate) fn crowded(&self, channel: &str) -> bool {
        self.with(|state| state.registry.crowded(channel))
    }

    /// Notes that a claim of `owner` holds `protocol`'s name. With its first grant, the client writes its label and
    /// starts to listen to its own channel. While the returned subscription lives, it also listens to messages for the
    /// client that made the owner.
    pub(crate) fn granted(
        self: &Arc<Self>,
        protocol: &dyn Protocol,
        owner: Owner,
    ) -> Option<Subscription> {
        if protocol.reenters() {
            let channel = protocol.channel();
            self.change(|registry| registry.granted(&channel, owner));
        }
        self.introduce();
        let own = owner.client() == self.presence.id;
        if own && !self.listening.swap(true, Ordering::Relaxed) {
            self.listen(self.presence.id);
        }
        (!own).then(|| {
            self.listen(owner.client());
            Subscription::new(self, client_channel(owner.client()))
        })
    }

    /// Sends what the kind of a claim that holds proclaims, if anything.
    pub(crate) fn proclaim(&self, part: &Arc<Part>) {
        if part
            .protocol
            .proclamation(part.requester.ask(part))
            .is_some()
        {
            // Without a task the client is closed, and the claim is lost.
            let _ = self.orders.send(Order::Proclaim(Arc::clone(part)));
        }
    }

    /// Writes the note of a claim that waits or holds.
    pub(crate) fn annotate(&self, part: &Arc<Part>) {
        if part.note.is_some() && part.begins_to_show() {
            // Without a task the client is closed, and the claim is lost.
            let _ = self.orders.send(Order::Annotate(Arc::clone(part)));
        }
    }

    /// Writes the client's label, unless that has been done.
    pub(crate) fn introduce(&self) {
        if !self.introduced.swap(true, Ordering::Relaxed) {
            // Without a task the client is closed, and no label is written.
            let _ = self.orders.send(Order::Introduce);
        }
    }

    /// Writes the label again before it expires, if the client holds anything. Otherwise there is nothing to show, and
    /// the next grant writes it.
    fn introduce_again(&self, claims: &Claims) {
        // This comes before the check below, so a lease that is too new for the check sends the order itself.
        self.introduced.store(false, Ordering::Relaxed);
        if !claims.is_empty() {
            self.introduce();
        }
    }

    /// Starts to listen for messages about the claims of this client's owners.
    fn listen(&self, client: Uuid) {
        let now = self.clock.now();
        self.change(|registry| {
            registry.listen(&client_channel(client), Reader::Client(client), now)
        });
    }

    /// Stops listening to the channel.
    fn turn_away(&self, channel: &str) {
        let now = self.clock.now();
        self.change_state(|state| {
            let deserted = |opening: &Weak<Notify>| opening.strong_count() == 0;
            if state.openings.get(channel).is_some_and(deserted) {
                state.openings.remove(channel);
            }
            state.watched.retain(|_, watched| !watched.is_closed());
            ((), state.registry.turn_away(channel, now))
        });
    }

    /// Notes that this client has released a claim on the name whose waiters listen on `channel`; `told` says whether
    /// the server published the wake.
    pub(crate) fn left(&self, channel: &str, told: bool) {
        let now = self.clock.now();
        self.change(|registry| registry.left(channel, told, now));
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock())
    }

    /// Changes the registry and carries out the consequences.
    fn change(&self, f: impl FnOnce(&mut Registry<Reader>) -> Vec<Step>) {
        self.change_state(|state| ((), f(&mut state.registry)));
    }

    /// Changes the state and carries out the consequences. Waiters are woken only after the lock is released, because a
    /// waker may do anything, including drop another place.
    fn change_state<T>(&self, f: impl FnOnce(&mut State) -> (T, Vec<Step>)) -> T {
        let mut bells = Vec::new();
        let mut orders = Vec::new();
        let result = self.with(|state| {
            let timer = state.registry.next();
            let (result, steps) = f(state);
            for step in steps {
                match step {
                    Step::Wake(waiter) => bells.extend(state.bells.get(&waiter).cloned()),
                    Step::Subscribe(channel) => orders.push(Order::Subscribe(channel)),
                    Step::Unsubscribe(channel) => orders.push(Order::Unsubscribe(channel)),
                }
            }
            let sooner = |next| timer.is_none_or(|timer| next < timer);
            if state.registry.next().is_some_and(sooner) {
                orders.push(Order::SetTimer);
            }
            result
        });
        for order in orders {
            // Without a task nothing can be subscribed to; the client is closed then and reports it.
            let _ = self.orders.send(order);
        }
        for bell in bells {
            bell.notify_one();
        }
        result
    }

    fn message(&self, claims: &Claims, channel: &str, payload: &[u8]) {
        let (reader, watched) = self.with(|state| {
            let watched = state.watched.get(channel).cloned();
            (state.registry.reader(channel).cloned(), watched)
        });
        let watched = watched.is_some_and(|watched| watched.send(()).is_ok());
        match reader {
            Some(Reader::Client(_)) => return presence::told(claims, payload),
            Some(Reader::Queue) => {
                if let Some(grant) = Grant::read(payload) {
                    return claims.granted(grant);
                }
            }
            Some(Reader::Waiters(is_wake)) if is_wake(payload) => {
                let now = self.clock.now();
                return self.change(|registry| registry.message(channel, now));
            }
            Some(Reader::Key(waited)) => {
                if is_gone(payload) {
                    let now = self.clock.now();
                    self.change(|registry| registry.message(&waited, now));
                }
                return;
            }
            _ if watched => return,
            _ => {}
        }
        tracing::debug!(channel, "ignored an unknown message");
    }

    /// Notifies all watchers that messages may have been missed.
    fn missed(&self) {
        let all: Vec<Watched> = self.with(|state| state.watched.values().cloned().collect());
        for watched in all {
            watched.send_replace(());
        }
    }

    /// Every channel of a silent server fails repeatedly. So one line is logged for each cause, and later lines count
    /// the repeats.
    fn log_failure(&self, channel: &str, error: &StoreError, now: Moment) {
        let (news, due) = self.with(|state| {
            let news = state.failures.count(&error.to_string(), now);
            (news, state.failures.take_due(now))
        });
        if news {
            tracing::warn!(channel, %error, "could not subscribe; polling meanwhile");
        } else {
            tracing::debug!(channel, %error, "could not subscribe; polling meanwhile");
        }
        for (error, channels) in due {
            tracing::warn!(channels, error, "could not subscribe; polling meanwhile");
        }
    }

    fn subscribed(&self, claims: &Claims, channel: &str, result: Result<(), StoreError>) {
        let now = self.clock.now();
        match result {
            Ok(()) => {
                let (opening, watched, reader) = self.change_state(|state| {
                    let opening = state.openings.remove(channel);
                    let watched = state.watched.get(channel).cloned();
                    let reader = state.registry.reader(channel).cloned();
                    let steps = state.registry.subscribed(channel, now);
                    ((opening, watched, reader), steps)
                });
                // Messages may have been missed.
                if let Some(watched) = watched {
                    watched.send_replace(());
                }
                match reader {
                    Some(Reader::Client(client)) => claims.hears(client),
                    // The key may have gone before the subscription was in place.
                    Some(Reader::Key(waited)) => {
                        self.change(|registry| registry.message(&waited, now));
                    }
                    _ => {}
                }
                if let Some(opening) = opening.and_then(|opening| opening.upgrade()) {
                    opening.notify_waiters();
                }
            }
            Err(error) => {
                self.log_failure(channel, &error, now);
                let refused = error.outcome() == Outcome::Refused && !error.is_transient();
                let refusal = refused.then_some(error);
                let opening = self.change_state(|state| {
                    let opening = state.openings.get(channel).cloned();
                    let opening = opening.filter(|_| refusal.is_some());
                    let steps = state.registry.subscription_failed(channel, refusal, now);
                    (opening, steps)
                });
                if let Some(opening) = opening.and_then(|opening| opening.upgrade()) {
                    opening.notify_waiters();
                }
            }
        }
    }
}

/// An order that has been carried out.
#[derive(Debug)]
enum Settled {
    Subscribed(String, Result<(), StoreError>),
    Unsubscribed(String),
    /// A label, a note or a proclamation; nothing else depends on it.
    Told,
}

async fn subscribe(requester: Arc<Requester>, channel: String) -> Settled {
    let result = requester.subscribe(&channel).await;
    Settled::Subscribed(channel, result)
}

async fn unsubscribe(store: Arc<dyn Store>, channel: String) -> Settled {
    if let Err(error) = store.unsubscribe(&channel).await {
        tracing::debug!(channel, %error, "could not unsubscribe");
    }
    Settled::Unsubscribed(channel)
}

async fn introduce(requester: Arc<Requester>, presence: Presence) -> Settled {
    presence::introduce(requester, presence).await;
    Settled::Told
}

async fn proclaim(part: Arc<Part>) -> Settled {
    presence::proclaim(part).await;
    Settled::Told
}

async fn annotate(part: Arc<Part>, namespace: String, bound: Arc<Semaphore>) -> Settled {
    presence::annotate(part, namespace, bound).await;
    Settled::Told
}

/// Why the task woke up.
enum Wakeup {
    Order(Order),
    Settled(Settled),
    Event(Event),
    Timer,
    End,
}

async fn run(
    subscriptions: Weak<Subscriptions>,
    requester: Arc<Requester>,
    mut events: mpsc::UnboundedReceiver<Event>,
    mut inbox: mpsc::UnboundedReceiver<Order>,
) {
    let (store, clock, claims) = (&requester.store, &requester.clock, &requester.claims);
    let mut operations: FuturesUnordered<BoxFuture<'static, Settled>> = FuturesUnordered::new();
    let mut introduction = Introduction::default();
    let notes = Arc::new(Semaphore::new(presence::NOTES));
    loop {
        let next = subscriptions
            .upgrade()
            .and_then(|subscriptions| subscriptions.with(|state| state.registry.next()));
        let next = next.into_iter().chain(introduction.next()).min();
        let wakeup = tokio::select! {
            biased;
            order = inbox.recv() => order.map_or(Wakeup::End, Wakeup::Order),
            event = events.recv() => event.map_or(Wakeup::End, Wakeup::Event),
            Some(settled) = operations.next() => Wakeup::Settled(settled),
            () = sleep_until_some(clock, next) => Wakeup::Timer,
        };
        let Some(subscriptions) = subscriptions.upgrade() else {
            return;
        };
        match wakeup {
            Wakeup::Order(Order::Subscribe(channel)) => {
                operations.push(Box::pin(subscribe(Arc::clone(&requester), channel)));
            }
            Wakeup::Order(Order::Unsubscribe(channel)) => {
                operations.push(Box::pin(unsubscribe(Arc::clone(store), channel)));
            }
            Wakeup::Order(Order::SetTimer) => {}
            Wakeup::Order(Order::Introduce) => {
                operations.push(Box::pin(introduce(
                    Arc::clone(&requester),
                    subscriptions.presence.clone(),
                )));
                introduction.sent(clock.now());
            }
            Wakeup::Order(Order::Proclaim(part)) => operations.push(Box::pin(proclaim(part))),
            Wakeup::Order(Order::Annotate(part)) => {
                let namespace = subscriptions.presence.namespace.clone();
                operations.push(Box::pin(annotate(part, namespace, Arc::clone(&notes))));
            }
            Wakeup::Settled(Settled::Subscribed(channel, result)) => {
                subscriptions.subscribed(claims, &channel, result);
            }
            Wakeup::Settled(Settled::Unsubscribed(channel)) => {
                subscriptions.change(|registry| registry.unsubscribed(&channel));
            }
            Wakeup::Settled(Settled::Told) => {}
            Wakeup::Event(Event::Message { channel, payload }) => {
                subscriptions.message(claims, &channel, &payload);
            }
            Wakeup::Event(Event::Reconnected) => {
                tracing::debug!("connected again: every waiter polls, every lease is renewed");
                let now = clock.now();
                if !mutant!(DeafToReconnect) {
                    subscriptions.change(|registry| registry.gap(now));
                    subscriptions.missed();
                    claims.all_due();
                }
                introduction.hurry(now);
                requester.audience.on_client(ClientEvent::Connected);
            }
            Wakeup::Event(Event::Disconnected) => {
                tracing::debug!("a connection is down");
                let now = clock.now();
                subscriptions.change(|registry| registry.cut(now));
                requester.audience.on_client(ClientEvent::Disconnected);
            }
            Wakeup::Timer => {
                let now = clock.now();
                subscriptions.change(|registry| registry.tick(now));
            }
            Wakeup::End => return,
        }
        if introduction.is_over(clock.now()) {
            subscriptions.introduce_again(claims);
        }
    }
}
