//! A way to a server on which anything may happen until the storm is over.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{Call, Event, Reply, Store, StoreError};
use lockkeeper_memory::MemoryStore;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::History;

/// See the module.
pub(super) struct Way {
    server: MemoryStore,
    name: &'static str,
    random: Mutex<Rng>,
    history: Arc<History>,
}

impl Way {
    /// A way to `server` with a fate of its own.
    pub(super) fn new(
        server: &MemoryStore,
        name: &'static str,
        seed: u64,
        history: &Arc<History>,
    ) -> Arc<Self> {
        Arc::new(Self {
            server: server.sibling(),
            name,
            random: Mutex::new(Rng::with_seed(seed)),
            history: Arc::clone(history),
        })
    }

    fn draw(&self, below: u64) -> u64 {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        random.u64(..below)
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Way").field(&self.name).finish()
    }
}

async fn served(
    server: &MemoryStore,
    name: &str,
    history: &History,
    call: Call,
) -> Result<Reply, StoreError> {
    let answer = server.call(call.clone()).await;
    history.executed(name, &call, &answer);
    answer
}

#[async_trait]
impl Store for Way {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        self.history.sent(self.name, &call);
        let limit = call.timeout;
        let fate = if self.history.is_calm() {
            u64::MAX
        } else {
            self.draw(12)
        };
        let (there, back) = (1 + self.draw(4), 1 + self.draw(4));
        let answer = async {
            match fate {
                0 => return std::future::pending().await,
                1 => return Err(StoreError::not_sent("no connection")),
                2 => {
                    // It arrives when nobody waits for it any more.
                    let (server, history) = (self.server.sibling(), Arc::clone(&self.history));
                    let name = self.name;
                    tokio::spawn(async move {
                        sleep(limit * 2).await;
                        let _ = served(&server, name, &history, call).await;
                    });
                    return std::future::pending().await;
                }
                _ => sleep(Duration::from_millis(there)).await,
            }
            let reply = served(&self.server, self.name, &self.history, call).await;
            sleep(Duration::from_millis(back)).await;
            if fate == 3 {
                return std::future::pending().await;
            }
            reply
        };
        let silence = Err(StoreError::unknown("no answer in time"));
        timeout(limit, answer).await.unwrap_or(silence)
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.server.subscribe(channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.server.unsubscribe(channel).await
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.server.events()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.server.clock()
    }

    async fn close(&self) {
        self.server.close().await;
    }
}
