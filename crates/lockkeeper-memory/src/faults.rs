//! Faults on demand: what networks, servers and operators do to one client.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::Name;
use lockkeeper_core::store::{Outcome, StoreError};

use crate::bus::ConnectionId;
use crate::server::Server;

/// The keys of a name beside its main key: all that the server knows of it. The counter is that of other names too.
const PARTS: [&str; 5] = ["holders", "queue", "state", "record", "counted"];

/// Injects faults into one client, for tests of your own code: lost replies, refusals, outages, slow answers, lost leases.
/// Made by [`MemoryStore::faults`](crate::MemoryStore::faults), before the store goes to its client.
///
/// A fault meets whichever request the client sends next, which may be a renewal or a release in the background. Other clients
/// of the same server have their own faults, and none of these. Clones are the same; the server lives as long as one of them does.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use lockkeeper_core::{Client, Error};
/// use lockkeeper_core::store::Outcome;
/// use lockkeeper_memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// let store = MemoryStore::new();
/// let faults = store.faults();
/// let client = Client::builder().build(Arc::new(store))?;
///
/// faults.disconnect();
/// let error = client.inspect("report").await.unwrap_err();
/// assert!(matches!(error, Error::Backend { ref cause, .. } if cause.outcome() == Outcome::NotSent));
///
/// faults.reconnect();
/// assert!(client.inspect("report").await?.holders.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Faults {
    server: Arc<Server>,
    connection: ConnectionId,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    planned: VecDeque<Fault>,
    /// How long each answer takes.
    delay: Duration,
}

/// What becomes of one request.
#[derive(Debug)]
enum Fault {
    /// It is executed, and nobody hears of it.
    LoseReply,
    /// It is answered with this error instead of being executed.
    Refuse(String),
}

impl Faults {
    pub(crate) fn of(server: &Arc<Server>, connection: ConnectionId) -> Self {
        Self {
            server: Arc::clone(server),
            connection,
            state: Arc::default(),
        }
    }

    /// Loses the next reply: the server executes the request, and the client does not learn what came of it, as when the connection
    /// breaks just then. It is [`Outcome::Unknown`](lockkeeper_core::store::Outcome::Unknown) at once. Called several times it
    /// loses as many.
    ///
    /// Acquisitions and releases survive this by themselves, for they are repeated.
    pub fn lose_reply(&self) {
        self.state().planned.push_back(Fault::LoseReply);
    }

    /// Refuses the next request: the server executes nothing and answers with this error, whose first word is its code, like
    /// `READONLY`, `OOM` or `NOPERM`. Called several times it refuses as many, each with its own error.
    pub fn refuse(&self, error: impl Into<String>) {
        let refusal = Fault::Refuse(error.into());
        self.state().planned.push_back(refusal);
    }

    /// Takes the connection away until it [reconnects](Self::reconnect): requests are not sent, and messages are missed. Leases
    /// are not renewed, and are lost when their time is over.
    pub fn disconnect(&self) {
        self.set_down(true);
    }

    /// Brings the connection back after [`disconnect`](Self::disconnect), with its subscriptions.
    pub fn reconnect(&self) {
        self.set_down(false);
    }

    /// Lets every answer take so long from now on; zero ends it. The server executes at once. A client that waits for less time
    /// gets no answer, and does not know what came of its request.
    pub fn delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Makes the server forget all that it has of the lock called `name`, in any namespace, as by an eviction; whether it had
    /// anything. Its holder learns of it with its next renewal, and loses its lease for
    /// [`Gone`](lockkeeper_core::LossReason::Gone). Until then another one can get the lock.
    ///
    /// ```
    /// # use lockkeeper_memory::MemoryStore;
    /// let store = MemoryStore::new();
    /// store.execute(&["SET", "lockkeeper:report", "somebody"])?;
    /// assert!(store.faults().evict("report"));
    /// assert!(!store.faults().evict("report"), "evicted already");
    /// # Ok::<(), lockkeeper_core::store::StoreError>(())
    /// ```
    pub fn evict(&self, name: &str) -> bool {
        let keyspace = &mut self.server.at_present().database.keyspace;
        let mains = keyspace.keys().filter_map(|key| named(key, name));
        let mains: Vec<Name> = mains.collect();
        for name in &mains {
            keyspace.remove(name.main().as_bytes());
            for part in PARTS {
                keyspace.remove(name.part(part).as_bytes());
            }
        }
        !mains.is_empty()
    }

    /// Why the next request is refused, if it is.
    pub(crate) fn before(&self) -> Result<(), StoreError> {
        match self.next_if(|fault| matches!(fault, Fault::Refuse(_))) {
            Some(Fault::Refuse(error)) => Err(StoreError::refused(error)),
            _ => Ok(()),
        }
    }

    /// What the client hears of an answer. What says that nothing was executed is not lost: there was nothing to lose.
    pub(crate) async fn after<T>(
        &self,
        answer: Result<T, StoreError>,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let loss = self.next_if(|fault| matches!(fault, Fault::LoseReply) && answer.is_ok());
        let delay = self.state().delay;
        if !delay.is_zero() && !answer.as_ref().is_err_and(was_not_sent) {
            // In a box: without a delay no call carries the room for it.
            Box::pin(tokio::time::sleep(delay.min(timeout))).await;
            if delay >= timeout || self.is_down() {
                return Err(unanswered());
            }
        }
        match loss {
            Some(_) => Err(unanswered()),
            None => answer,
        }
    }

    /// The planned fault whose turn it is, if it is one of these.
    fn next_if(&self, is_meant: impl FnOnce(&Fault) -> bool) -> Option<Fault> {
        let planned = &mut self.state().planned;
        planned
            .front()
            .is_some_and(is_meant)
            .then(|| planned.pop_front())?
    }

    fn is_down(&self) -> bool {
        let state = self.server.at_present();
        state.database.bus.is_down(self.connection)
    }

    fn set_down(&self, down: bool) {
        let mut state = self.server.at_present();
        state.database.bus.set_down(self.connection, down);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Faults")
            .field("planned", &state.planned)
            .field("delay", &state.delay)
            .finish_non_exhaustive()
    }
}

fn unanswered() -> StoreError {
    StoreError::unknown("the reply was lost, by an injected fault")
}

fn was_not_sent(error: &StoreError) -> bool {
    error.outcome() == Outcome::NotSent
}

/// The lock called `name` that has this main key.
fn named(key: &[u8], name: &str) -> Option<Name> {
    let namespace = str::from_utf8(key).ok()?.strip_suffix(name)?;
    let namespace = match namespace {
        "" => "",
        namespace => namespace.strip_suffix(':')?,
    };
    Name::new(namespace, name).ok()
}

#[cfg(test)]
mod tests;
