//! The traffic between clients and the server, and its faults in transit.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::{Call, Event, Reply, Store as _, StoreError};
use tokio::sync::oneshot;

use super::checks::claims;
use super::fate::Fate;
use super::network::{Action, Answer, Machine, Parcel};
use super::record::Heard;
use super::trace::short;
use super::world::World;

/// Errors of a server that is not ready now.
const NOT_READY: [&str; 4] = [
    "LOADING the data is being loaded",
    "BUSY a script is running",
    "READONLY this is a replica",
    "MASTERDOWN no link with the primary",
];

/// How late a gap in the messages is reported at most, and how long a connection stays broken, ms.
const GAP: u64 = 500;

impl World {
    /// Sends a parcel. Returns the answer, nothing if it is lost, or an error if it is known not to have been sent.
    pub(super) fn send(
        &self,
        link: usize,
        parcel: Parcel,
    ) -> Result<(u64, oneshot::Receiver<Answer>), StoreError> {
        let now = self.now();
        let mut guard = self.network();
        let network = &mut *guard;
        let mut fate = network.fates.of_parcel(link, &parcel);
        let chances = network.chances;
        let is_call = matches!(parcel, Parcel::Call(_));
        if network.links[link].closed {
            return Err(StoreError::not_sent("the store is closed"));
        }
        let is_killed = network.machines[network.links[link].server].killed;
        if network.links[link].down || is_killed || is_call && fate.strikes(chances.not_sent) {
            return Err(StoreError::not_sent("no connection"));
        }
        let ticket = network.put_number();
        let (sender, answer) = oneshot::channel();
        let lost = if is_call {
            chances.lose_request
        } else {
            chances.lose_subscription
        };
        if fate.strikes(lost) {
            self.tell(format_args!("c{link} #{ticket} is lost"));
            return Ok((ticket, answer));
        }
        // A paused client sends nothing until it runs again.
        let sent = now.max(network.links[link].paused);
        let timeout = u64::try_from(self.plan.timeout().as_millis()).unwrap_or(0);
        let mut at = fate.within(sent, self.plan.delay);
        if fate.strikes(chances.slow) {
            at = fate.within(at, 2 * timeout);
        }
        if !is_call || !self.plan.unordered {
            at = at.max(network.links[link].arrival);
        }
        let overtaken = is_call && fate.strikes(chances.overtaken);
        if !overtaken {
            let latest = network.links[link].arrival.max(at);
            network.links[link].arrival = latest;
        }
        network.links[link].waiting.insert(ticket, sender);
        let action = Action::Arrive {
            link,
            ticket,
            sent,
            parcel,
        };
        network.put(at, action, fate);
        if overtaken {
            self.tell(format_args!("c{link} breaks behind #{ticket}"));
            network.cut(link, now, GAP, self.plan.latest(), false);
        }
        drop(guard);
        self.planned.notify_one();
        Ok((ticket, answer))
    }

    /// Performs the actions on the agenda, for ever.
    pub(super) async fn run_network(self: Arc<Self>) {
        loop {
            let next = self.network().next();
            let now = self.now();
            match next {
                Some(at) if at <= now => {
                    let action = self.network().agenda.pop_first();
                    if let Some((_, (action, mut fate))) = action {
                        let yields = fate.0.bool();
                        let executes = match &action {
                            Action::Arrive { link, .. } => Some(self.network().links[*link].server),
                            _ => None,
                        };
                        self.act(action, fate).await;
                        self.look(|server| executes == Some(server));
                        if yields {
                            tokio::task::yield_now().await;
                        }
                    }
                }
                Some(at) => tokio::select! {
                    biased;
                    () = self.planned.notified() => {}
                    () = tokio::time::sleep_until(self.instant(at)) => {}
                },
                None => self.planned.notified().await,
            }
        }
    }

    async fn act(&self, action: Action, fate: Fate) {
        let now = self.now();
        if let Some((action, fate)) = self.due(action, fate, now) {
            self.perform(action, fate, now).await;
        }
    }

    /// Returns the action if it is due now. A frozen server accepts nothing until it resumes, and a paused host hears nothing.
    /// A request to a server that is down, or frozen for longer than a request may last, is lost.
    fn due(&self, action: Action, fate: Fate, now: Duration) -> Option<(Action, Fate)> {
        let mut network = self.network();
        let later = match &action {
            Action::Arrive {
                link, ticket, sent, ..
            } => {
                let Machine { killed, frozen, .. } = network.machines[network.links[*link].server];
                if killed || frozen > *sent + self.plan.latest() && !self.plan.late {
                    self.tell(format_args!("#{ticket} reaches nobody"));
                    return None;
                }
                frozen
            }
            Action::Answer { link, .. } | Action::Tell { link, .. } => network.links[*link].paused,
            Action::Mend { .. } | Action::Revive { .. } => now,
        };
        if later > now {
            network.put(later, action, fate);
            return None;
        }
        Some((action, fate))
    }

    async fn perform(&self, action: Action, fate: Fate, now: Duration) {
        match action {
            Action::Arrive {
                link,
                ticket,
                parcel,
                ..
            } => self.arrive(link, ticket, parcel, fate).await,
            Action::Answer {
                link,
                ticket,
                answer,
            } => {
                if let Some(sender) = self.network().links[link].waiting.remove(&ticket) {
                    // It fails if the caller waits no more.
                    let _ = sender.send(answer);
                }
            }
            Action::Tell { link, event } => {
                let network = self.network();
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
                    let heard = match event {
                        Event::Reconnected => Heard::NewConnection,
                        _ => Heard::Other,
                    };
                    self.heard(link, heard);
                    let _ = events.send(event);
                }
            }
            Action::Mend { link } => {
                let mut network = self.network();
                // It broke again in the meantime, for longer.
                if network.links[link].mended > now {
                    return;
                }
                network.links[link].down = false;
                network.put_event(link, now, Event::Reconnected, fate);
            }
            Action::Revive { server } => {
                self.network().machines[server].killed = false;
                self.restart_empty(server);
            }
        }
    }

    /// Restarts a server that has lost all its data.
    pub(super) fn restart_empty(&self, server: usize) {
        self.tell(format_args!("s{server} is up, empty"));
        self.servers[server].restart_empty();
        let now = self.now();
        self.check(|checks| checks.forgot(server, now));
    }

    async fn arrive(&self, link: usize, ticket: u64, parcel: Parcel, mut fate: Fate) {
        let now = self.now();
        let chances = self.network().chances;
        let answer = match parcel {
            Parcel::Call(call) => self.execute(link, ticket, call, &mut fate).await.map(Some),
            // The caller waits no more: its call has failed, so the channel must not be subscribed to.
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
        if fate.strikes(chances.lose_reply) {
            return self.tell(format_args!("the answer to #{ticket} is lost"));
        }
        let mut at = fate.within(now, self.plan.delay);
        if fate.strikes(chances.slow) {
            let timeout = self.plan.timeout().as_millis();
            at = fate.within(at, u64::try_from(timeout).unwrap_or(0));
        }
        let action = Action::Answer {
            link,
            ticket,
            answer,
        };
        network.put(at, action, fate);
    }

    /// Unsubscribes a client from a channel.
    pub(super) async fn forget_channel(&self, link: usize, channel: &str) {
        let inner = Arc::clone(&self.network().links[link].inner);
        // It fails only if the connection is closed, and then the client is not subscribed anyway.
        let _ = inner.unsubscribe(channel).await;
        self.network().links[link].subscribed.remove(channel);
    }

    async fn execute(
        &self,
        link: usize,
        ticket: u64,
        call: Call,
        fate: &mut Fate,
    ) -> Result<Reply, StoreError> {
        self.drift();
        let place = self.network().links[link].server;
        let chances = self.network().chances;
        if fate.strikes(chances.kill) {
            self.restart_empty(place);
        }
        if fate.strikes(chances.forget) {
            self.servers[place].flush_scripts();
        }
        let refusal = fate
            .strikes(chances.refuse)
            .then(|| fate.0.choice(NOT_READY));
        let result = match refusal.flatten() {
            Some(refusal) => Err(StoreError::refused(refusal)),
            // Use a connection that outlives the client's: what was sent arrives even if its sender is gone.
            None => self.serve(place, &call).await,
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
                let server = (place, &self.servers[place]);
                self.check(|checks| checks.executed(link, &call, reply, server, now));
            }
            Err(error) => {
                let code = error.code().unwrap_or("?");
                self.tell(format_args!("c{link} #{ticket} {script} {claim} -> {code}"));
            }
        }
        result
    }

    /// Sends the messages that the server has published to their subscribers.
    fn distribute(&self, now: Duration) {
        let mut guard = self.network();
        let network = &mut *guard;
        for link in 0..network.links.len() {
            while let Some(published) = &mut network.links[link].published
                && let Ok(event) = published.try_recv()
            {
                let silent = network.machines[network.links[link].server].silent;
                if network.links[link].down || silent > now {
                    continue;
                }
                self.record(|record| record.messages += 1);
                let chances = network.chances;
                let mut fate = network.fates.of_message(link, &event);
                let mut at = fate.within(now, self.plan.delay);
                if fate.strikes(chances.slow) {
                    at = fate.within(at, GAP);
                }
                if fate.strikes(chances.lose_message) {
                    self.tell(format_args!("c{link} misses a message"));
                    let told = fate.within(at, GAP);
                    network.put_event(link, told, Event::Reconnected, fate);
                    continue;
                }
                if fate.strikes(chances.repeat_message) {
                    network.put_event(link, at, event.clone(), Fate(fate.0.fork()));
                }
                network.put_event(link, at, event, fate);
            }
        }
    }
}
