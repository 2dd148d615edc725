//! The settings of a client, as users give them.

use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::engine::Engine;
use crate::engine::settings::Settings;
use crate::seam::observer::{Audience, Observer};
use crate::seam::store::Store;
use crate::words::error::{Error, Result};

/// Settings for a new [`Client`]. Every one has a default that fits most services.
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
    /// What stands before every name, with a colon between (default `lockkeeper`). It has no colon and no brace itself, so that
    /// no two namespaces share a key. Empty: names are keys as they are, as other libraries' locks have them, and may be those of
    /// any namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.namespace = namespace.into();
        self
    }

    /// Length of a lease (default 30 s): how long a crashed holder keeps others out.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// How long a waiter in a queue is taken to be alive after each sign of it (default 10 s); it gives one each third of it. A
    /// waiter that died at the head of the queue keeps the others for so long.
    pub fn waiter_ttl(mut self, ttl: Duration) -> Self {
        self.settings.waiter_ttl = ttl;
        self
    }

    /// A lease is renewed when about one `fraction`th of its ttl has passed, a little sooner together with others, and
    /// twice as soon after a failure. From 2, or a lease would end before it is renewed, to 100 (default 3).
    pub fn renewal_fraction(mut self, fraction: u32) -> Self {
        self.settings.renewal_fraction = fraction;
        self
    }

    /// How much earlier than on the server a lease ends for its holder (default 1 % of the ttl + 5 ms). It must cover
    /// how much faster the server's clock may run than this machine's within one ttl.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.settings.margin = Some(margin);
        self
    }

    /// How long one request is waited for (default 2 s), never more than a sixth of the ttl.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = timeout;
        self
    }

    /// How long a release, and closing, wait for the server to confirm (default 5 s).
    pub fn release_timeout(mut self, timeout: Duration) -> Self {
        self.settings.release_timeout = timeout;
        self
    }

    /// How often a client asks for a name that another library holds and that somebody here waits for, a millisecond at least (default
    /// 100 ms, and up to 50 ms more, so that clients do not ask together): that library wakes nobody when it releases. One of a
    /// client's waiters asks for all of them. Names that Lockkeeper holds are not polled.
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.settings.poll_every = interval;
        self
    }

    /// Listens to the server's keyspace notifications for a name of the empty namespace as long as somebody here waits for it
    /// (default `false`), so that the release of another library wakes a waiter within a round trip, and so does the end of its lease.
    ///
    /// The server must send them, `notify-keyspace-events Kgx`, and the client must be allowed to subscribe to
    /// `__keyspace@<database>__:<name>`. Otherwise, in a cluster and in the embedded engine, this changes nothing:
    /// [`poll_every`](Self::poll_every) goes on beside it.
    pub fn keyspace_notifications(mut self, listens: bool) -> Self {
        self.settings.keyspace_notifications = listens;
        self
    }

    /// Who the client is, for people who [inspect](Client::inspect) what it holds (default: the machine's name and the
    /// number of the process, `host:pid`; none with a [`seed`](Self::seed)). At most 256 bytes; empty: no label. It is
    /// written with the first grant and while the client holds, and stands on the server for ten minutes after the last
    /// time.
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

    /// The [label](Self::label) that the client will have, if any: for who makes its store, whose connections can bear it too.
    pub fn client_label(&self) -> Option<Arc<str>> {
        self.settings.label()
    }

    /// What the server, or cluster, behind this client is called, the same in every process and unlike every other. A multi-lock
    /// over several of them is taken in the order of these names, whatever the order of its members: that is what keeps two
    /// processes from waiting for one another for ever. Nothing else needs it.
    pub fn store_name(mut self, name: impl Into<String>) -> Self {
        self.settings.store_name = Some(name.into().into());
        self
    }

    /// Tells `observer` of every acquisition and every lease of this client, and of its connections.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.settings.audience = Audience(Some(observer));
        self
    }

    /// Makes the client's uuid, claims and jitter follow from a seed, so that a test can be repeated to the letter. Two
    /// clients of one seed must never share a server.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// A client on a store. Its tasks run on the tokio runtime of the caller.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if a setting cannot work, if the store serves another client already, or outside of a tokio
    /// runtime.
    pub fn build(self, store: Arc<dyn Store>) -> Result<Client> {
        self.settings.check()?;
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Err(Error::config(
                "a client must be made inside a tokio runtime, which then runs its renewals",
            ));
        };
        let Some(events) = store.events() else {
            return Err(Error::config(
                "a store serves one client, and this one has a client already: connect another store",
            ));
        };
        let engine = Engine::start(self.settings, store, events, &runtime);
        Ok(Client { engine })
    }
}
