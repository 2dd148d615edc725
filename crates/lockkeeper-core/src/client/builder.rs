//! The settings of a client.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::engine::Engine;
use crate::engine::settings::Settings;
use crate::seam::observer::{Audience, Observer};
use crate::seam::store::Store;
use crate::words::error::{Error, Result};

/// Settings for a new [`Client`]. Each has a default that fits most services.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use lockkeeper_core::Client;
///
/// # fn example(store: std::sync::Arc<dyn lockkeeper_core::store::Store>) -> lockkeeper_core::Result<Client> {
/// Client::builder().namespace("billing").ttl(Duration::from_secs(10)).build(store)
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ClientBuilder {
    settings: Settings,
}

impl ClientBuilder {
    /// Sets the prefix of every name (default `lockkeeper`); a colon separates the two. It may contain neither a colon
    /// nor a brace, so that two namespaces never share a key. If it is empty, the names themselves are the keys, as in
    /// other libraries, and can collide with the keys of any namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.namespace = namespace.into();
        self
    }

    /// Sets the length of a lease (default 30 s). After a crash of the holder, the lock stays unavailable for up to this
    /// long.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// Sets how long a waiter in a queue counts as alive after each of its heartbeats (default 10 s). It sends a
    /// heartbeat every third of this time. A dead waiter at the head of the queue delays the others for this long, and so
    /// does one that dies just when it is granted. A waiter whose lease has a shorter ttl counts as alive for only that ttl,
    /// but at least 1 s.
    pub fn waiter_ttl(mut self, ttl: Duration) -> Self {
        self.settings.waiter_ttl = ttl;
        self
    }

    /// Sets how often a lease is renewed within its ttl: about every `fraction`th of the ttl (default 3: a third). It
    /// must be from 2 to 100; with 1, a lease would end before it is renewed. Renewals that are sent together may go out
    /// a little sooner, and after a failure the next one is sent twice as soon.
    pub fn renewal_fraction(mut self, fraction: u32) -> Self {
        self.settings.renewal_fraction = fraction;
        self
    }

    /// Sets how much earlier a lease ends for its holder than on the server (default 1 % of the ttl + 5 ms). The margin
    /// must cover the time that the server's clock may gain on this machine's clock within one ttl. It may be a quarter
    /// of the [waiter ttl](Self::waiter_ttl) at most, and must leave time to renew a lease within its ttl.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.settings.margin = Some(margin);
        self
    }

    /// Sets how long the client waits for the reply to one request (default 2 s, at least 1 ms); it never waits longer
    /// than a sixth of the ttl.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = timeout;
        self
    }

    /// Sets how long a release, and closing the client, wait for the server to confirm (default 5 s, at least 1 ms).
    pub fn release_timeout(mut self, timeout: Duration) -> Self {
        self.settings.release_timeout = timeout;
        self
    }

    /// Sets how often the client polls a name that another library holds (default 100 ms, at least 1 ms). Up to 50 ms
    /// are added at random, so that clients do not poll together. Polling is needed because that library wakes no
    /// waiter when it releases. One of a client's waiters polls for all of them. Names that Lockkeeper holds are not
    /// polled.
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.settings.poll_every = interval;
        self
    }

    /// Subscribes to the server's keyspace notifications for each name of the empty namespace that this client waits
    /// for (default `false`). Then a release by another library, or the end of its lease, wakes a waiter within one
    /// round trip.
    ///
    /// Configure the server to send them, with `notify-keyspace-events Kgx`, and allow the client's user to subscribe
    /// to `__keyspace@<database>__:<name>`. Without these, in a cluster and on `memory://`, this setting has no effect.
    /// Polling as by [`poll_every`](Self::poll_every) continues in any case.
    pub fn keyspace_notifications(mut self, listens: bool) -> Self {
        self.settings.keyspace_notifications = listens;
        self
    }

    /// Sets a label by which people recognise the client when they [inspect](Client::inspect) what it holds (default:
    /// the host name and the process id, `host:pid`; no label with a [`seed`](Self::seed)). At most 256 bytes; empty
    /// means no label. It is written with the first grant and again while the client holds, and expires on the server
    /// ten minutes after the last write.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// let settings = Client::builder().label("nightly report");
    /// let client = settings.build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let _guard = Mutex::new(&client, "report").acquire().await?;
    /// // The client introduces itself in the background.
    /// tokio::time::sleep(Duration::from_secs(1)).await;
    /// let holder = client.inspect("report").await?.holders.remove(0);
    /// assert_eq!(holder.label.as_deref(), Some("nightly report"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.settings.label = Some(label.into());
        self
    }

    /// Returns the [label](Self::label) that the client will have, if any. Code that makes the store can give its
    /// connections the same label.
    pub fn client_label(&self) -> Option<Arc<str>> {
        self.settings.label()
    }

    /// Sets a name for the server or cluster behind this client. Use the same name in every process, and a different
    /// one for every other server. You need it only for a multi-lock over several servers: it acquires its members in
    /// the order of these names, however they are listed, so that two processes never wait for each other for ever.
    pub fn store_name(mut self, name: impl Into<String>) -> Self {
        self.settings.store_name = Some(name.into().into());
        self
    }

    /// Reports every acquisition and lease of this client, and its connections, to `observer`.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.settings.audience = Audience(Some(observer));
        self
    }

    /// Derives the client's uuid, claims and jitter from a seed, so that a test can be repeated exactly. Two clients
    /// with the same seed must never share a server.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Builds a client on a store. Its tasks run on the tokio runtime of the caller.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if a setting is invalid (no time may be longer than a year), if the store already serves another client, or if it is called
    /// outside of a tokio runtime.
    pub fn build(self, store: Arc<dyn Store>) -> Result<Client> {
        self.settings.check()?;
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Err(Error::config(
                "a client must be built inside a tokio runtime, which then runs its renewals",
            ));
        };
        let Some(events) = store.events() else {
            return Err(Error::config(
                "this store already serves a client: connect another store for this client",
            ));
        };
        let engine = Engine::start(self.settings, store, events, &runtime);
        Ok(Client { engine })
    }
}
