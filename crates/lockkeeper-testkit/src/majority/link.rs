//! One process's way to one server. Requests do not keep their order, and nobody can call them back.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{Call, Event, Reply, Store, StoreError};
use lockkeeper_memory::MemoryStore;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::silence;
use super::world::World;

/// See the module.
pub(super) struct Link {
    world: Arc<World>,
    process: usize,
    place: usize,
    inner: MemoryStore,
    random: Mutex<Rng>,
}

/// What becomes of one request.
struct Fate {
    there: Duration,
    back: Duration,
    arrives: bool,
    is_answered: bool,
    /// The server is killed and comes back before it arrives.
    restarts: bool,
}

impl Link {
    pub(super) fn new(world: Arc<World>, process: usize, place: usize, random: Rng) -> Self {
        Self {
            inner: world.servers[place].sibling(),
            world,
            process,
            place,
            random: Mutex::new(random),
        }
    }

    /// What becomes of the next request; `None`: it is not sent.
    fn fate(&self) -> Option<Fate> {
        let random = &mut *self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = &self.world.plan;
        let chances = self.world.chances();
        let mut happens = |chance: f64| random.f64() < chance;
        if happens(chances.not_sent) {
            return None;
        }
        let (slow, arrives) = (happens(chances.slow), !happens(chances.lose_request));
        let is_answered = !happens(chances.lose_reply);
        let restarts = happens(chances.restart);
        let mut way = || Duration::from_micros(random.u64(..=plan.delay * 1_000));
        let (there, back) = (way(), way());
        let late = if slow {
            plan.longest_way().mul_f64(random.f64())
        } else {
            Duration::ZERO
        };
        Some(Fate {
            there: there + late,
            back,
            arrives,
            is_answered,
            restarts,
        })
    }
}

/// Carries the request to the server and the reply back.
async fn carry(
    world: Arc<World>,
    (process, place): (usize, usize),
    call: Call,
    fate: Fate,
    answer: oneshot::Sender<Result<Reply, StoreError>>,
) {
    sleep(fate.there).await;
    if !fate.arrives || !world.reached(place).await {
        // Whoever waits for the answer is not told that there will be none.
        return answer_never(answer).await;
    }
    if fate.restarts {
        world.restart(place);
    }
    let reply = world.servers[place].sibling().call(call.clone()).await;
    world.executed(process, place, &call, &reply);
    sleep(fate.back).await;
    if fate.is_answered {
        // The caller may have given up.
        let _ = answer.send(reply);
    } else {
        answer_never(answer).await;
    }
}

/// Keeps the caller waiting until it gives up.
async fn answer_never(mut answer: oneshot::Sender<Result<Reply, StoreError>>) {
    answer.closed().await;
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the way of p{} to s{}", self.process, self.place)
    }
}

#[async_trait]
impl Store for Link {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        let fate = self.fate().filter(|_| !self.world.is_down(self.place));
        let Some(fate) = fate else {
            return Err(StoreError::not_sent("no connection"));
        };
        let (limit, ends) = (call.timeout, (self.process, self.place));
        let (answer, answered) = oneshot::channel();
        tokio::spawn(carry(Arc::clone(&self.world), ends, call, fate, answer));
        match timeout(limit, answered).await {
            Ok(Ok(reply)) => reply,
            _ => Err(silence()),
        }
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.inner.subscribe(channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.inner.unsubscribe(channel).await
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.inner.events()
    }

    fn address(&self) -> String {
        format!("s{}", self.place)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
