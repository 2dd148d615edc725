//! The notification hub: one event stream per client, one subscription per contended name.
//!
//! [`registry`] decides; the hub carries out. Its task reads the store's events, subscribes and unsubscribes, and never
//! waits for any one channel.

pub(crate) mod registry;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, mpsc};

use crate::clock::{Clock, Moment, sleep_until};
use crate::protocol::{Protocol, Signal};
use crate::renewal::Renewals;
use crate::store::{Event, Outcome, Store, StoreError};
use registry::{Registry, Step, Turn, WaiterId};

/// Where acquisitions wait for messages.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    steps: mpsc::UnboundedSender<Step>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct State {
    /// With each channel the kind that waits there: it reads the messages.
    registry: Registry<Arc<dyn Protocol>>,
    bells: BTreeMap<WaiterId, Arc<Notify>>,
}

impl State {
    /// Rings for the waiters; what is left is for the task.
    fn ring(&self, steps: Vec<Step>) -> impl Iterator<Item = Step> + '_ {
        steps.into_iter().filter(|step| {
            let Step::Wake(waiter) = step else {
                return true;
            };
            if let Some(bell) = self.bells.get(waiter) {
                bell.notify_one();
            }
            false
        })
    }
}

impl Hub {
    /// A hub on `store` and the future that runs it until every handle is gone.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        renewals: Arc<Renewals>,
    ) -> (Arc<Self>, impl Future<Output = ()>) {
        let (steps, inbox) = mpsc::unbounded_channel();
        let hub = Arc::new(Self {
            state: Mutex::default(),
            steps,
            clock: store.clock(),
        });
        let task = run(Arc::downgrade(&hub), store, inbox, renewals);
        (hub, task)
    }

    /// Whether anybody of this client already waits for the name.
    pub(crate) fn crowded(&self, channel: &str) -> bool {
        self.with(|state| state.registry.crowded(channel))
    }

    /// Takes a place in the line for `protocol`'s name.
    pub(crate) fn join(self: &Arc<Self>, protocol: &Arc<dyn Protocol>) -> Place {
        let channel = protocol.channel();
        let bell = Arc::new(Notify::new());
        let now = self.clock.now();
        let waiter = self.change(|state| {
            let (waiter, steps) = state.registry.join(&channel, Arc::clone(protocol), now);
            state.bells.insert(waiter, Arc::clone(&bell));
            (waiter, steps)
        });
        Place {
            hub: Arc::clone(self),
            channel,
            waiter,
            bell,
            granted: None,
        }
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the registry and carries out or hands on what follows from it.
    fn change<T>(&self, f: impl FnOnce(&mut State) -> (T, Vec<Step>)) -> T {
        self.with(|state| {
            let (result, steps) = f(state);
            for step in state.ring(steps) {
                // Without a task nothing can be subscribed to; the client is closed then and says so.
                let _ = self.steps.send(step);
            }
            result
        })
    }

    fn message(&self, channel: &str, payload: &[u8]) {
        self.change(|state| {
            let signal = state
                .registry
                .reader(channel)
                .and_then(|reader| reader.signal(payload));
            let steps = match signal {
                Some(Signal::Look) => state.registry.message(channel),
                None => Vec::new(),
            };
            ((), steps)
        });
    }

    fn settled(&self, operation: Operation, now: Moment) {
        self.change(|state| {
            let steps = match operation {
                Operation::Subscribed(channel, Ok(())) => state.registry.subscribed(&channel),
                Operation::Subscribed(channel, Err(error)) => {
                    tracing::warn!(channel, %error, "could not subscribe; polling meanwhile");
                    let refused = error.outcome() == Outcome::Refused && !error.is_transient();
                    state
                        .registry
                        .subscription_failed(&channel, refused.then_some(error), now)
                }
                Operation::Unsubscribed(channel) => state.registry.unsubscribed(&channel),
            };
            ((), steps)
        });
    }

    fn tick(&self, now: Moment) {
        self.change(|state| ((), state.registry.tick(now)));
    }
}

/// A place in the line for one name. Dropping it gives the place up and, if need be, the scout's role with it.
#[derive(Debug)]
pub(crate) struct Place {
    hub: Arc<Hub>,
    channel: String,
    waiter: WaiterId,
    bell: Arc<Notify>,
    granted: Option<Moment>,
}

impl Place {
    /// Waits until it is this waiter's turn to ask the server.
    pub(crate) async fn turn(&self) -> Result<(), StoreError> {
        loop {
            let now = self.hub.clock.now();
            match self
                .hub
                .with(|state| state.registry.turn(&self.channel, self.waiter, now))
            {
                Turn::Look => return Ok(()),
                Turn::Refused(refusal) => return Err(refusal),
                Turn::Wait(None) => self.bell.notified().await,
                Turn::Wait(Some(moment)) => tokio::select! {
                    biased;
                    () = self.bell.notified() => {}
                    () = sleep_until(&self.hub.clock, moment) => {}
                },
            }
        }
    }

    /// The look was answered: the name is held, perhaps until `free`.
    pub(crate) fn busy(&self, free: Option<Moment>) {
        let now = self.hub.clock.now();
        self.hub
            .with(|state| state.registry.busy(&self.channel, free, now));
    }

    /// The look was answered: this waiter holds, until `until` if nothing else happens.
    pub(crate) fn granted(mut self, until: Moment) {
        self.granted = Some(until);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let now = self.hub.clock.now();
        self.hub.change(|state| {
            state.bells.remove(&self.waiter);
            (
                (),
                state
                    .registry
                    .leave(&self.channel, self.waiter, self.granted, now),
            )
        });
    }
}

/// A subscription or unsubscription that has been answered.
#[derive(Debug)]
enum Operation {
    Subscribed(String, Result<(), StoreError>),
    Unsubscribed(String),
}

async fn operate(store: Arc<dyn Store>, step: Step) -> Option<Operation> {
    match step {
        Step::Subscribe(channel) => {
            let result = store.subscribe(&channel).await;
            Some(Operation::Subscribed(channel, result))
        }
        Step::Unsubscribe(channel) => {
            if let Err(error) = store.unsubscribe(&channel).await {
                tracing::debug!(channel, %error, "could not unsubscribe");
            }
            Some(Operation::Unsubscribed(channel))
        }
        Step::Wake(_) | Step::Watch => None,
    }
}

/// What the task woke up for.
enum Wakeup {
    Step(Step),
    Settled(Option<Operation>),
    Event(Event),
    Tick,
    End,
}

async fn run(
    hub: std::sync::Weak<Hub>,
    store: Arc<dyn Store>,
    mut inbox: mpsc::UnboundedReceiver<Step>,
    renewals: Arc<Renewals>,
) {
    let clock = store.clock();
    let mut events = store.events();
    let mut operations: FuturesUnordered<BoxFuture<'static, Option<Operation>>> =
        FuturesUnordered::new();
    loop {
        let next = hub
            .upgrade()
            .and_then(|hub| hub.with(|state| state.registry.next()));
        let timer = async {
            match next {
                Some(moment) => sleep_until(&clock, moment).await,
                None => std::future::pending().await,
            }
        };
        let wakeup = tokio::select! {
            biased;
            step = inbox.recv() => step.map_or(Wakeup::End, Wakeup::Step),
            event = events.recv() => event.map_or(Wakeup::End, Wakeup::Event),
            Some(operation) = operations.next() => Wakeup::Settled(operation),
            () = timer => Wakeup::Tick,
        };
        let Some(hub) = hub.upgrade() else { return };
        match wakeup {
            Wakeup::Step(step) => operations.push(Box::pin(operate(Arc::clone(&store), step))),
            Wakeup::Settled(operation) => {
                if let Some(operation) = operation {
                    hub.settled(operation, clock.now());
                }
            }
            Wakeup::Event(Event::Message { channel, payload }) => hub.message(&channel, &payload),
            Wakeup::Event(Event::Reconnected) => {
                tracing::debug!("connected again: every waiter looks, every lease is renewed");
                hub.change(|state| ((), state.registry.gap()));
                renewals.all_due();
            }
            Wakeup::Event(Event::Disconnected) => tracing::debug!("a connection is down"),
            Wakeup::Tick => hub.tick(clock.now()),
            Wakeup::End => return,
        }
    }
}
