//! [`MemoryStore`]: the store over a server in this process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_core::clock::{Clock, TokioClock};
use lockkeeper_core::store::{Call, Event, Form, Replicated, Reply, Store, StoreError, Value};
use tokio::sync::mpsc;

use crate::bus::{Bus, ConnectionId};
use crate::faults::Faults;
use crate::interpreter::Run;
use crate::keyspace::Snapshot;
use crate::resp::Resp;
use crate::server::Server;
use crate::wall_clock::WallClock;

/// How many tasks a message goes through until its receiver acts on it: the reader of the events, and the waiter.
const HOPS: usize = 2;

/// A [`Store`] in this process: one connection to a small server that runs the shipped scripts.
///
/// A call executes its script in the calling task, all at once, so paused tokio time does not move during a script. Its messages
/// are delivered before it returns. Dropping the last store of a keyspace drops the keyspace.
///
/// The inherent methods are for tests: they do to the server what operators, clocks and networks do to a real one.
pub struct MemoryStore {
    server: Arc<Server>,
    connection: ConnectionId,
    faults: Faults,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// Creates a store with its own keyspace, `memory://`.
    ///
    /// ```
    /// use lockkeeper_memory::MemoryStore;
    ///
    /// let (one, other) = (MemoryStore::new(), MemoryStore::new());
    /// one.execute(&["SET", "k", "v"])?;
    /// assert!(other.keys().is_empty());
    /// # Ok::<(), lockkeeper_core::store::StoreError>(())
    /// ```
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a default value would be shared or empty; this is a new server each time"
    )]
    pub fn new() -> Self {
        Self::connect(Server::new(None))
    }

    /// Returns a store for the keyspace that all stores of this name in this process share, `memory://name`.
    ///
    /// The keyspace starts with the first of these stores and ends with the last. An empty name means no name: the keyspace is
    /// [new](Self::new).
    ///
    /// ```
    /// use lockkeeper_memory::MemoryStore;
    ///
    /// let (one, other) = (MemoryStore::shared("orders"), MemoryStore::shared("orders"));
    /// one.execute(&["SET", "k", "v"])?;
    /// assert_eq!(other.keys(), ["k"]);
    /// # Ok::<(), lockkeeper_core::store::StoreError>(())
    /// ```
    #[must_use]
    pub fn shared(name: &str) -> Self {
        if name.is_empty() {
            return Self::new();
        }
        Self::connect(Server::shared(name))
    }

    /// Opens another connection to the same server: another client's store, with its own subscriptions and events.
    ///
    /// ```
    /// use lockkeeper_memory::MemoryStore;
    ///
    /// let store = MemoryStore::new();
    /// store.execute(&["SET", "k", "v"])?;
    /// assert_eq!(store.sibling().keys(), ["k"]);
    /// # Ok::<(), lockkeeper_core::store::StoreError>(())
    /// ```
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self::connect(Arc::clone(&self.server))
    }

    fn connect(server: Arc<Server>) -> Self {
        let connection = server.at_present().database.bus.connect();
        Self {
            faults: Faults::of(&server, connection),
            server,
            connection,
            clock: Arc::new(TokioClock::new()),
        }
    }

    /// Returns `memory://`, followed by the name if the keyspace has one.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Executes one command, as another client of the server would. `command` starts with the name of the command, followed by its
    /// arguments.
    ///
    /// It works on a closed store too. The server knows the commands that the scripts use, `EVAL` and `EVALSHA`, and a few more.
    ///
    /// # Errors
    ///
    /// Refused, with the server's own text, if the command is unknown or malformed, or if a key has another type.
    ///
    /// ```
    /// use lockkeeper_memory::MemoryStore;
    ///
    /// let store = MemoryStore::new();
    /// store.execute(&["HSET", "k", "field", "value"])?;
    /// let error = store.execute(&["GET", "k"]).unwrap_err();
    /// assert_eq!(error.code(), Some("WRONGTYPE"));
    /// # Ok::<(), lockkeeper_core::store::StoreError>(())
    /// ```
    pub fn execute(&self, command: &[&str]) -> Result<Value, StoreError> {
        self.server.at_present().command(command).into_result()
    }

    /// Returns the keys that exist now, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let state = self.server.at_present();
        let keys = state.database.keyspace.keys();
        keys.map(|key| String::from_utf8_lossy(key).into_owned())
            .collect()
    }

    /// Steps the server's wall clock, as an operator or a time service does: forward by this many milliseconds, or back if
    /// negative. `TIME` and expiries follow that clock; the [`clock`](Store::clock) of the clients does not.
    ///
    /// ```
    /// use lockkeeper_memory::MemoryStore;
    ///
    /// let store = MemoryStore::new();
    /// store.execute(&["SET", "k", "v", "PX", "1000"])?;
    /// store.step_clock(1001);
    /// assert!(store.keys().is_empty());
    /// # Ok::<(), lockkeeper_core::store::StoreError>(())
    /// ```
    pub fn step_clock(&self, milliseconds: i64) {
        self.server.at_present().clock.step(milliseconds);
    }

    /// Sets the server's wall clock to this many microseconds since the Unix epoch; it runs on from there. Call this first in a
    /// test that must run the same each time: tokens and expiries come from that clock.
    ///
    /// ```
    /// use lockkeeper_memory::MemoryStore;
    ///
    /// let store = MemoryStore::new();
    /// store.set_clock(0);
    /// store.execute(&["SET", "k", "v", "PX", "1000"])?;
    /// store.set_clock(1_001_000);
    /// assert!(store.keys().is_empty());
    /// # Ok::<(), lockkeeper_core::store::StoreError>(())
    /// ```
    pub fn set_clock(&self, micros: i64) {
        self.server.at_present().clock = WallClock::going(micros);
    }

    /// Stops the server's wall clock at this many microseconds since the Unix epoch, for a model that moves time by itself.
    pub fn stop_clock(&self, micros: i64) {
        self.server.at_present().clock = WallClock::stopped(micros);
    }

    /// Returns all keys with their values and expiries, to [restore](Self::restore) later or to compare. Scripts, subscriptions and
    /// the clock are not part of it.
    ///
    /// ```
    /// use lockkeeper_memory::MemoryStore;
    ///
    /// let store = MemoryStore::new();
    /// store.execute(&["SET", "k", "old"])?;
    /// let before = store.snapshot();
    /// store.execute(&["SET", "k", "new"])?;
    /// store.restore(&before);
    /// assert_eq!(store.execute(&["GET", "k"])?.as_str(), Some("old"));
    /// # Ok::<(), lockkeeper_core::store::StoreError>(())
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.server.at_present().database.keyspace.snapshot()
    }

    /// Restores the keys of a snapshot, as a failover to a replica that has missed the last writes does. Keys that have expired
    /// since the snapshot are gone.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut state = self.server.at_present();
        state.database.keyspace.restore(snapshot.clone());
    }

    /// Loses every message on this server from now on (`true`), or delivers messages again (`false`). Publishers do not notice, and
    /// clients are not told that messages are missing.
    pub fn mute(&self, muted: bool) {
        self.server.at_present().database.bus.muted = muted;
    }

    /// Makes the server forget its scripts, as after a restart, a failover or `SCRIPT FLUSH`: the next call by SHA-1 is refused
    /// with `NOSCRIPT`.
    pub fn flush_scripts(&self) {
        self.server.at_present().flush_scripts();
    }

    /// Restarts the server without its data: no keys, no scripts, and an uptime of zero, while a new server counts as up for long.
    /// Connections and subscriptions stay.
    ///
    /// ```
    /// use lockkeeper_memory::MemoryStore;
    ///
    /// let store = MemoryStore::new();
    /// store.execute(&["SET", "k", "v"])?;
    /// store.restart_empty();
    /// assert!(store.keys().is_empty());
    /// let info = store.execute(&["INFO", "server"])?;
    /// assert!(info.as_str().is_some_and(|info| info.contains("uptime_in_seconds:0")));
    /// # Ok::<(), lockkeeper_core::store::StoreError>(())
    /// ```
    pub fn restart_empty(&self) {
        self.server.at_present().restart_empty();
    }

    /// Returns a handle that injects faults into the client that this store serves, for tests of your own code. Take it before you
    /// give the store to that client.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lockkeeper_core::Client;
    /// use lockkeeper_memory::MemoryStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// let store = MemoryStore::new();
    /// let faults = store.faults();
    /// let client = Client::builder().build(Arc::new(store))?;
    ///
    /// faults.refuse("NOPERM this user has no permissions to run the 'evalsha' command");
    /// let error = client.inspect("report").await.unwrap_err();
    /// assert!(error.to_string().contains("NOPERM"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    fn disconnect(&self) {
        let mut state = self.server.at_present();
        state.database.bus.disconnect(self.connection);
    }

    fn check_connected(&self, bus: &Bus) -> Result<(), StoreError> {
        if !bus.is_connected(self.connection) {
            return Err(StoreError::not_sent("the store is closed"));
        }
        if bus.is_down(self.connection) {
            return Err(StoreError::not_sent("disconnected, by an injected fault"));
        }
        Ok(())
    }

    /// What a script answers, and whether it has sent a message that a connection reads.
    fn run(&self, call: &Call) -> Result<(Reply, bool), StoreError> {
        let request = call.request.to_string();
        let script = call.item.script;
        let keys: Vec<&str> = call.item.keys.iter().collect();
        let request = std::iter::once(&*request);
        let args: Vec<&str> = request.chain(call.item.args.iter()).collect();
        let mut state = self.server.at_present();
        self.check_connected(&state.database.bus)?;
        self.faults.before()?;
        let before = state.database.bus.delivered();
        let reply: Resp = match call.form {
            Form::Sha => state.evalsha(script.sha1, &keys, &args),
            // For a form that is not known here, the script's text is at hand at least.
            _ => state.eval(Run {
                sha1: script.sha1,
                source: script.source,
                keys: &keys,
                args: &args,
            }),
        };
        let told = state.database.bus.delivered() > before;
        drop(state);
        let reply = Reply::read(call.request, reply.into_result()?)
            .map_err(|bad| StoreError::unknown(bad.to_string()).with_source(bad))?;
        Ok((reply, told))
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        let (answer, told) = match self.run(&call) {
            Ok((reply, told)) => (Ok(reply), told),
            Err(error) => (Err(error), false),
        };
        let answer = self.faults.after(answer, call.timeout).await;
        // Over a network every call lets other tasks run. Here a loop of calls would starve them, so a call counts as work; and the
        // receiver of a message runs before the sender's next call. This comes after the effect, never before: calls take effect in
        // the order of their first polls.
        if told {
            for _ in 0..HOPS {
                tokio::task::yield_now().await;
            }
        } else {
            tokio::task::consume_budget().await;
        }
        answer
    }

    /// There are no replicas to wait for.
    async fn call_replicated(
        &self,
        call: Call,
        _replicas: u32,
        _patience: Duration,
    ) -> Result<Replicated, StoreError> {
        Ok(Replicated::new(self.call(call).await?, Ok(0)))
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        let mut state = self.server.at_present();
        let bus = &mut state.database.bus;
        self.check_connected(bus)?;
        bus.subscribe(self.connection, channel);
        Ok(())
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        let mut state = self.server.at_present();
        let bus = &mut state.database.bus;
        self.check_connected(bus)?;
        bus.unsubscribe(self.connection, channel);
        Ok(())
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.server
            .at_present()
            .database
            .bus
            .events(self.connection)
    }

    fn address(&self) -> String {
        self.url()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    async fn close(&self) {
        self.disconnect();
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.disconnect();
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("url", &self.url())
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
