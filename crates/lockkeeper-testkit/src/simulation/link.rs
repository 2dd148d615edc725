//! One client's store: the store contract over the simulated network, and nothing more.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{Call, Event, Reply, Store, StoreError};
use tokio::sync::mpsc;

use super::network::{Answer, Parcel};
use super::record::{Heard, Sent};
use super::slip::{DELAY, Sending};
use super::world::World;

/// A client's store over its link.
pub(super) struct LinkStore {
    world: Arc<World>,
    link: usize,
}

impl LinkStore {
    pub(super) const fn new(world: Arc<World>, link: usize) -> Self {
        Self { world, link }
    }

    /// Sends and waits, at most for `timeout`. A paused client notices nothing until it runs again.
    async fn ask(&self, parcel: Parcel, timeout: Duration) -> Answer {
        let asked = self.world.now();
        let (ticket, answer) = self.world.send(self.link, parcel)?;
        let silence = async {
            let mut until = asked + timeout;
            while self.world.now() < until {
                tokio::time::sleep_until(self.world.instant(until)).await;
                until = until.max(self.world.network().links[self.link].paused);
            }
        };
        tokio::select! {
            biased;
            Ok(answer) = answer => answer,
            () = silence => {
                self.world.tell(format_args!("c{} #{ticket} has waited too long", self.link));
                Err(StoreError::unknown("no answer in time"))
            }
        }
    }

    /// Hands a call to the network and waits for the outcome.
    async fn pass(&self, server: usize, call: Call) -> Result<Reply, StoreError> {
        let at = self.world.now();
        let index = self.world.record(|record| {
            record.sent.push(Sent {
                at,
                link: self.link,
                server,
                call: call.clone(),
                settled: None,
            });
            record.sent.len() - 1
        });
        self.world.sending.notify_waiters();
        let timeout = call.timeout;
        let answer = self.ask(Parcel::Call(call), timeout).await;
        let reply =
            answer.and_then(|reply| reply.ok_or_else(|| StoreError::unknown("no reply to a call")));
        if let Some(index) = index {
            let settled = Some((self.world.now(), reply.clone()));
            self.world
                .record(|record| record.sent[index].settled = settled);
        }
        reply
    }
}

#[async_trait]
impl Store for LinkStore {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        let (ticket, server) = {
            let mut network = self.world.network();
            (network.put_number(), network.links[self.link].server)
        };
        let now = self.world.now();
        let claims = self
            .world
            .check(|checks| checks.sent(self.link, server, &call, ticket, now));
        // The laws count it as open for as long as its caller waits.
        let _open = self
            .world
            .check_at_end(|checks| checks.settled(&claims, ticket));
        let Some(slipping) = &self.world.slipping else {
            return self.pass(server, call).await;
        };
        let sending = slipping.lock().next(self.link, &call);
        let outcome = match sending {
            Sending::Usual => self.pass(server, call.clone()).await,
            Sending::Twice => {
                let both = join(
                    self.pass(server, call.clone()),
                    self.pass(server, call.clone()),
                );
                both.await.0
            }
            Sending::BehindNext => {
                let next = self.world.sending.notified();
                // There may be no other.
                let _ = tokio::time::timeout(call.timeout, next).await;
                self.pass(server, call.clone()).await
            }
            Sending::Late => {
                tokio::time::sleep(DELAY).await;
                self.pass(server, call.clone()).await
            }
        };
        slipping.lock().settled(self.link, &call, &outcome);
        outcome
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        let parcel = Parcel::Subscribe(channel.to_owned());
        self.world.record(|record| record.subscriptions += 1);
        let answer = self.ask(parcel, self.world.plan.timeout()).await;
        self.world.heard(self.link, Heard::Other);
        if answer.is_err() {
            self.world.forget_channel(self.link, channel).await;
        }
        answer.map(drop)
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        let parcel = Parcel::Unsubscribe(channel.to_owned());
        let answer = self.ask(parcel, self.world.plan.timeout()).await;
        self.world.forget_channel(self.link, channel).await;
        answer.map(drop)
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.world.network().links[self.link].receiver.take()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.world.clock)
    }

    async fn close(&self) {
        self.world.network().close(self.link);
    }
}

impl fmt::Debug for LinkStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkStore({})", self.link)
    }
}
