//! One client's store: the store contract over the simulated network, and nothing more.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{Call, Event, Reply, Store, StoreError};
use tokio::sync::mpsc;

use super::network::{Answer, Parcel};
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
    async fn ask(&self, parcel: Parcel, timeout: std::time::Duration) -> Answer {
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
        let timeout = call.timeout;
        self.ask(Parcel::Call(call), timeout)
            .await?
            .ok_or_else(|| StoreError::unknown("no reply to a call"))
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        let parcel = Parcel::Subscribe(channel.to_owned());
        let answer = self.ask(parcel, self.world.plan.timeout()).await;
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
