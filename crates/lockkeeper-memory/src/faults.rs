//! Faults on demand: what networks, servers and operators do to one client.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::Name;
use lockkeeper_core::store::{Outcome, StoreError};

use crate::bus::ConnectionId;
use crate::server::Server;

/// The keys of a name besides its main key: everything that the server knows about it. The counter belongs to other names too.
const PARTS: [&str; 5] = ["holders", "queue", "state", "record", "counted"];

/// Injects faults into one client, for tests of your own code: lost replies, refusals, outages, slow answers, lost leases.
///
/// Get it from [`MemoryStore::faults`](crate::MemoryStore::faults), before you give the store to its client. A fault hits the next
/// request of the client, which may be a renewal or a release in the background. Other clients of the same server have their own
/// faults. Clones share their faults; the server lives as long as one of them does.
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

/// What happens to one request.
#[derive(Debug)]
enum Fault {
    /// It is executed, but its reply is lost.
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

    /// Loses the next reply: the server executes the request, and the client does not learn the result, as when the connection
    /// breaks just then. The result is [`Outcome::Unknown`](lockkeeper_core::store::Outcome::Unknown) at once. If you call this
    /// several times, as many replies are lost.
    ///
    /// Acquisitions and releases survive this without your help, because the client repeats them.
    pub fn lose_reply(&self) {
        self.state().planned.push_back(Fault::LoseReply);
    }

    /// Refuses the next request: the server executes nothing and answers with this error. Its first word is its code, like
    /// `READONLY`, `OOM` or `NOPERM`. If you call this several times, as many requests are refused, each with its own error.
    pub fn refuse(&self, error: impl Into<String>) {
        let refusal = Fault::Refuse(error.into());
        self.state().planned.push_back(refusal);
    }

    /// Cuts the connection until you [reconnect](Self::reconnect) it: requests are not sent, and messages are missed. Leases are
    /// not renewed, and are lost when their time is over.
    pub fn disconnect(&self) {
        self.set_down(true);
    }

    /// Restores the connection after [`disconnect`](Self::disconnect), with its subscriptions.
    pub fn reconnect(&self) {
        self.set_down(false);
    }

    /// Delays every answer by this much from now on; zero ends the delay. The server executes at once. A client that waits for less
    /// time gets no answer, and does not know the result of its request.
    pub fn delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// Makes the server forget everything about the lock called `name`, in any namespace, as an eviction does. Returns whether it
    /// knew anything.
    ///
    /// The holder learns of it at its next renewal, and loses its lease with the reason
    /// [`Gone`](lockkeeper_core::LossReason::Gone). Until then another client can get the lock.
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

    /// Fails if the next request is to be refused.
    pub(crate) fn before(&self) -> Result<(), StoreError> {
        match self.next_if(|fault| matches!(fault, Fault::Refuse(_))) {
            Some(Fault::Refuse(error)) => Err(StoreError::refused(error)),
            _ => Ok(()),
        }
    }

    /// What the client receives of an answer. A planned loss skips errors: nothing was executed, so there is nothing to lose.
    pub(crate) async fn after<T>(
        &self,
        answer: Result<T, StoreError>,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let loss = self.next_if(|fault| matches!(fault, Fault::LoseReply) && answer.is_ok());
        let delay = self.state().delay;
        if !delay.is_zero() && !answer.as_ref().is_err_and(was_not_sent) {
            // Boxed, so that calls without a delay do not carry the space for it.
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

    /// The next planned fault, if it matches.
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

/// The lock called `name` that has this main key, if it is one.
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
