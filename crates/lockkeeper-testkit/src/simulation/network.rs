//! The way between clients and the server: an agenda of what arrives when, in one order that follows from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lockkeeper_core::store::{Call, Event, Reply, Store as _, StoreError};
use lockkeeper_memory::MemoryStore;
use tokio::sync::{mpsc, oneshot};

use super::checks::claims;
use super::plan::Chances;
use super::trace::short;
use super::world::World;

/// Errors of a server that is not ready just now.
const NOT_READY: [&str; 4] = [
    "LOADING the data is being loaded",
    "BUSY a script is running",
    "READONLY this is a replica",
    "MASTERDOWN no link with the primary",
];

/// How often a gap in the messages is told at the latest, ms.
const GAP: u64 = 500;

/// What a caller is told: a reply, or `None` for what has none.
pub(super) type Answer = Result<Option<Reply>, StoreError>;

/// What is sent to the server.
#[derive(Debug)]
pub(super) enum Parcel {
    Call(Call),
    Subscribe(String),
    Unsubscribe(String),
}

/// Something that happens at its time.
#[derive(Debug)]
enum Action {
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
}

/// One client's connections.
#[derive(Debug)]
pub(super) struct Link {
    inner: Arc<MemoryStore>,
    published: Option<mpsc::UnboundedReceiver<Event>>,
    events: Option<mpsc::UnboundedSender<Event>>,
    pub(super) receiver: Option<mpsc::UnboundedReceiver<Event>>,
    /// No request of the present connection arrives before this, and no event.
    arrival: Duration,
    hearing: Duration,
    down: bool,
    closed: bool,
    /// The client is about to be closed, so its calls may say so.
    pub(super) closing: bool,
    /// The client does not run before this.
    pub(super) paused: Duration,
    /// Who waits for an answer, and whether it is the script connection that brings it.
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
    pub(super) subscribed: BTreeSet<String>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) random: Rng,
    pub(super) chances: Chances,
    agenda: BTreeMap<(Duration, u64), Action>,
    /// Numbers actions and tickets.
    count: u64,
    pub(super) links: Vec<Link>,
}

impl Network {
    pub(super) const fn new(random: Rng, chances: Chances) -> Self {
        Self {
            random,
            chances,
            agenda: BTreeMap::new(),
            count: 0,
            links: Vec::new(),
        }
    }

    /// A new client's connections; their number.
    pub(super) fn connect(&mut self, server: &MemoryStore) -> usize {
        let inner = Arc::new(server.sibling());
        let (events, receiver) = mpsc::unbounded_channel();
        self.links.push(Link {
            published: inner.events(),
            inner,
            events: Some(events),
            receiver: Some(receiver),
            arrival: Duration::ZERO,
            hearing: Duration::ZERO,
            down: false,
            closed: false,
            closing: false,
            paused: Duration::ZERO,
            waiting: BTreeMap::new(),
            subscribed: BTreeSet::new(),
        });
        self.links.len() - 1
    }

    pub(super) fn chance(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.random.f64() < chance
    }

    /// A moment up to so many milliseconds later.
    fn within(&mut self, now: Duration, milliseconds: u64) -> Duration {
        now + Duration::from_millis(self.random.u64(0..=milliseconds))
    }

    pub(super) fn put_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn put(&mut self, at: Duration, action: Action) {
        let number = self.put_number();
        self.agenda.insert((at, number), action);
    }

    fn next(&self) -> Option<Duration> {
        self.agenda.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Puts an event into a client's stream, behind those that are already on their way.
    fn put_event(&mut self, link: usize, at: Duration, event: Event) {
        let at = at.max(self.links[link].hearing);
        self.links[link].hearing = at;
        self.put(at, Action::Tell { link, event });
    }

    /// Breaks a client's connections for up to so many milliseconds. Whoever waits is told; what is on its way may still
    /// arrive, unless the server itself went down.
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
        let mut strays = Vec::new();
        for (&(at, number), action) in &self.agenda {
            if let Action::Arrive {
                link: whose,
                sent,
                parcel,
                ..
            } = action
                && *whose == link
            {
                let call = matches!(parcel, Parcel::Call(_));
                strays.push(((at, number), call, *sent));
            }
        }
        for (key, call, sent) in strays {
            let fate = self.random.u8(..3);
            if server || !call || fate == 0 {
                self.agenda.remove(&key);
            } else if fate == 1
                && let Some(action) = self.agenda.remove(&key)
            {
                let end = (sent + latest).max(key.0);
                let late = end.saturating_sub(now).as_millis();
                let at = self.within(now, u64::try_from(late).unwrap_or(0)).max(now);
                self.put(at, action);
            }
        }
        for (ticket, sender) in waiting {
            self.links[link].waiting.insert(ticket, sender);
            let answer = Err(StoreError::unknown("the connection broke"));
            self.put(
                now,
                Action::Answer {
                    link,
                    ticket,
                    answer,
                },
            );
        }
        self.links[link].arrival = now;
        self.links[link].down = true;
        self.put_event(link, now, Event::Disconnected);
        // Not at once: a server that takes over needs some time, and tokens count microseconds.
        let mended = self.within(now + Duration::from_millis(5), down);
        self.put(mended, Action::Mend { link });
    }

    fn is_waited_for(&self, link: usize, ticket: u64) -> bool {
        let waiting = self.links[link].waiting.get(&ticket);
        waiting.is_some_and(|sender| !sender.is_closed())
    }

    /// The client's process is gone.
    pub(super) fn close(&mut self, link: usize) {
        let link = &mut self.links[link];
        link.closed = true;
        link.events = None;
        link.waiting.clear();
        link.subscribed.clear();
    }
}

impl World {
    /// Sends a parcel. What comes back is the answer, or nothing if it is lost; an error if it is known not to be sent.
    pub(super) fn send(
        &self,
        link: usize,
        parcel: Parcel,
    ) -> Result<(u64, oneshot::Receiver<Answer>), StoreError> {
        let now = self.now();
        let mut guard = self.network();
        let network = &mut *guard;
        let chances = network.chances;
        let is_call = matches!(parcel, Parcel::Call(_));
        if network.links[link].closed {
            return Err(StoreError::not_sent("the store is closed"));
        }
        if network.links[link].down || is_call && network.chance(chances.not_sent) {
            return Err(StoreError::not_sent("no connection"));
        }
        let ticket = network.put_number();
        let (sender, answer) = oneshot::channel();
        let lost = if is_call {
            chances.lose_request
        } else {
            chances.lose_subscription
        };
        if network.chance(lost) {
            self.tell(format_args!("c{link} #{ticket} is lost"));
            return Ok((ticket, answer));
        }
        // A client that is paused sends nothing before it runs again.
        let sent = now.max(network.links[link].paused);
        let latest = self.plan.ttl.mul_f64(0.4);
        let timeout = u64::try_from(self.plan.timeout().as_millis()).unwrap_or(0);
        let mut at = network.within(sent, self.plan.delay);
        if network.chance(chances.slow) {
            at = network.within(at, 2 * timeout);
        }
        at = at.max(network.links[link].arrival);
        let stray = is_call && network.chance(chances.stray);
        if !stray {
            network.links[link].arrival = at;
        }
        network.links[link].waiting.insert(ticket, sender);
        network.put(
            at,
            Action::Arrive {
                link,
                ticket,
                sent,
                parcel,
            },
        );
        if stray {
            self.tell(format_args!("c{link} breaks behind #{ticket}"));
            network.cut(link, now, GAP, latest, false);
        }
        drop(guard);
        self.bell.notify_one();
        Ok((ticket, answer))
    }

    /// Does what is on the agenda, for ever.
    pub(super) async fn run_network(self: Arc<Self>) {
        loop {
            let next = self.network().next();
            let now = self.now();
            match next {
                Some(at) if at <= now => {
                    let action = self.network().agenda.pop_first();
                    if let Some((_, action)) = action {
                        let executes = matches!(action, Action::Arrive { .. });
                        self.act(action).await;
                        self.look(executes);
                    }
                    if self.network().random.bool() {
                        tokio::task::yield_now().await;
                    }
                }
                Some(at) => tokio::select! {
                    biased;
                    () = self.bell.notified() => {}
                    () = tokio::time::sleep_until(self.instant(at)) => {}
                },
                None => self.bell.notified().await,
            }
        }
    }

    async fn act(&self, action: Action) {
        let now = self.now();
        match action {
            Action::Arrive {
                link,
                ticket,
                parcel,
                ..
            } => self.arrive(link, ticket, parcel).await,
            Action::Answer {
                link,
                ticket,
                answer,
            } => {
                let mut network = self.network();
                let paused = network.links[link].paused;
                if paused > now {
                    return network.put(
                        paused,
                        Action::Answer {
                            link,
                            ticket,
                            answer,
                        },
                    );
                }
                if let Some(sender) = network.links[link].waiting.remove(&ticket) {
                    // Nobody there: the caller waits no more.
                    let _ = sender.send(answer);
                }
            }
            Action::Tell { link, event } => {
                let mut network = self.network();
                let paused = network.links[link].paused;
                if paused > now {
                    return network.put(paused, Action::Tell { link, event });
                }
                if let Some(events) = &network.links[link].events {
                    let what = match &event {
                        Event::Message { channel, .. } => channel,
                        Event::Reconnected => "reconnected",
                        _ => "disconnected",
                    };
                    self.tell(format_args!("c{link} hears {what}"));
                    if event == Event::Reconnected && self.is_healed() {
                        let until = now + self.plan.timeout() + Duration::from_secs(1);
                        self.check(|checks| checks.told_of_gap(link, until));
                    }
                    let _ = events.send(event);
                }
            }
            Action::Mend { link } => {
                let mut network = self.network();
                network.links[link].down = false;
                network.put_event(link, now, Event::Reconnected);
            }
        }
    }

    async fn arrive(&self, link: usize, ticket: u64, parcel: Parcel) {
        let now = self.now();
        let chances = self.network().chances;
        let answer = match parcel {
            Parcel::Call(call) => self.execute(link, ticket, call).await.map(Some),
            // Nobody waits for it any more: it has failed, and then the channel is not subscribed to.
            Parcel::Subscribe(_) if !self.network().is_waited_for(link, ticket) => return,
            Parcel::Subscribe(channel) => {
                let inner = Arc::clone(&self.network().links[link].inner);
                let answer = inner.subscribe(&channel).await;
                self.tell(format_args!("c{link} #{ticket} subscribes to {channel}"));
                self.network().links[link].subscribed.insert(channel);
                answer.map(|()| None)
            }
            Parcel::Unsubscribe(channel) => {
                self.tell(format_args!(
                    "c{link} #{ticket} unsubscribes from {channel}"
                ));
                self.forget_channel(link, &channel).await;
                Ok(None)
            }
        };
        self.distribute(now);
        let mut network = self.network();
        if network.chance(chances.lose_reply) {
            return self.tell(format_args!("the answer to #{ticket} is lost"));
        }
        let mut at = network.within(now, self.plan.delay);
        if network.chance(chances.slow) {
            let timeout = self.plan.timeout().as_millis();
            at = network.within(at, u64::try_from(timeout).unwrap_or(0));
        }
        network.put(
            at,
            Action::Answer {
                link,
                ticket,
                answer,
            },
        );
    }

    /// A client listens to a channel no more.
    pub(super) async fn forget_channel(&self, link: usize, channel: &str) {
        let inner = Arc::clone(&self.network().links[link].inner);
        // It fails only if the connection is closed, and then nobody listens anyway.
        let _ = inner.unsubscribe(channel).await;
        self.network().links[link].subscribed.remove(channel);
    }

    async fn execute(&self, link: usize, ticket: u64, call: Call) -> Result<Reply, StoreError> {
        self.drift();
        let result = {
            let mut network = self.network();
            let forget = network.chances.forget;
            if network.chance(forget) {
                self.server.flush_scripts();
            }
            let refuse = network.chances.refuse;
            network
                .chance(refuse)
                .then(|| network.random.choice(NOT_READY))
                .flatten()
        };
        let result = match result {
            Some(refusal) => Err(StoreError::refused(refusal)),
            // By a connection that outlives the client's: what was sent arrives, whatever has become of the sender.
            None => self.server.call(call.clone()).await,
        };
        self.count_request();
        let claim = claims(&call)
            .first()
            .map(|claim| short(claim))
            .unwrap_or_default();
        let script = call.item.script.name;
        match &result {
            Ok(reply) => {
                let (status, field) = (reply.status().as_str(), reply.field(0));
                let field = field.map(|field| {
                    field
                        .as_str()
                        .map_or_else(|| format!("{field:?}"), str::to_owned)
                });
                let field = field.unwrap_or_default();
                self.tell(format_args!(
                    "c{link} #{ticket} {script} {claim} -> {status} {field}"
                ));
                let now = self.now();
                self.check(|checks| checks.executed(link, &call, reply, self.plan.names, now));
            }
            Err(error) => {
                let code = error.code().unwrap_or("?");
                self.tell(format_args!("c{link} #{ticket} {script} {claim} -> {code}"));
            }
        }
        result
    }

    /// Puts what the server has published on its way to those who listen.
    fn distribute(&self, now: Duration) {
        let mut guard = self.network();
        let network = &mut *guard;
        for link in 0..network.links.len() {
            while let Some(published) = &mut network.links[link].published
                && let Ok(event) = published.try_recv()
            {
                if network.links[link].down {
                    continue;
                }
                let chances = network.chances;
                let mut at = network.within(now, self.plan.delay);
                if network.chance(chances.slow) {
                    at = network.within(at, GAP);
                }
                if network.chance(chances.lose_message) {
                    self.tell(format_args!("c{link} misses a message"));
                    let told = network.within(at, GAP);
                    network.put_event(link, told, Event::Reconnected);
                    continue;
                }
                if network.chance(chances.repeat_message) {
                    network.put_event(link, at, event.clone());
                }
                network.put_event(link, at, event);
            }
        }
    }
}
