//! The client: one connection to one deployment, and everything that its locks share.

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::exchange::{Line, Tenure, Terms};
use crate::hold::Armed;
use crate::name::Name;
use crate::notify::Hub;
use crate::owner::{ClaimId, Owner};
use crate::protocol::Protocol;
use crate::reaper;
use crate::renewal::Renewals;
use crate::settings::Settings;
use crate::store::Store;

/// A connection to one deployment, shared by all locks that are made from it. Clones are the same client.
///
/// One client per process and deployment is enough: it renews all leases from one task and listens on one connection.
/// When the last clone and the last guard are gone, what was given up is still left for in the background.
#[derive(Clone)]
pub struct Client {
    pub(crate) engine: Arc<Engine>,
}

/// What every lock of a client uses.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) line: Arc<Line>,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) reaper: reaper::Handle,
    pub(crate) settings: Settings,
    id: Uuid,
    owners: AtomicU64,
    tenures: AtomicU64,
    random: Mutex<fastrand::Rng>,
    closed: Arc<watch::Sender<bool>>,
    /// Every acquisition holds a clone; [`Client::close`] waits until none is left.
    gate: Mutex<Option<mpsc::Sender<Infallible>>>,
    /// Tells when the last clone of the gate is gone.
    passage: tokio::sync::Mutex<mpsc::Receiver<Infallible>>,
}

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
    /// What stands before every name, with a colon between (default `lockkeeper`). Empty: names are keys as they are,
    /// as other libraries' locks have them.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.namespace = namespace.into();
        self
    }

    /// Length of a lease (default 30 s): how long a crashed holder keeps others out.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// A lease is renewed when one `fraction`th of its ttl has passed (default 3), and twice as soon after a failure.
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
    /// [`Error::Config`] if a setting cannot work, or outside of a tokio runtime.
    pub fn build(self, store: Arc<dyn Store>) -> Result<Client> {
        self.settings.check()?;
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Err(Error::config(
                "a client must be made inside a tokio runtime, which then runs its renewals",
            ));
        };
        Ok(Client {
            engine: Engine::start(self.settings, store, &runtime),
        })
    }
}

/// What [`Client::close`] found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Claims that nobody held any more and that the server has confirmed to be gone, since the client was made.
    pub left: usize,
    /// Leases whose guards were alive: lost to their holders, and held on the server until their ttl ends.
    pub expiring: usize,
    /// Claims that nobody held any more and for which no answer came: they end with their ttl.
    pub unanswered: usize,
}

impl Client {
    /// Settings for a new client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A new logical holder, unlike any other.
    pub fn new_owner(&self) -> Owner {
        self.engine.new_owner()
    }

    /// Ends the client: waiting acquisitions fail with [`Error::Closed`], live guards are lost, what was given up is
    /// left for, connections are closed.
    ///
    /// A lease whose guard is still alive is not released, because nobody knows whether the work under it has stopped:
    /// it is [`Lost`](crate::LossReason::ClientClosed) to its holder and expires on the server. Release guards first.
    /// Takes at most the client's release timeout, and a second more to take leave of the server. Closing twice is
    /// harmless.
    ///
    /// # Cancel safety
    ///
    /// The client is closed as soon as the future was polled once; dropping it later only leaves the rest to the
    /// background.
    pub async fn close(&self) -> CloseReport {
        let engine = &self.engine;
        engine.close_gate();
        engine.closed.send_replace(true);
        let expiring = engine.renewals.forsake_all();
        let orderly = async {
            engine.passage.lock().await.recv().await;
            engine.reaper.drained().await;
        };
        let in_time = tokio::time::timeout(engine.settings.release_timeout, orderly)
            .await
            .is_ok();
        let expiring = expiring + engine.renewals.forsake_all();
        let (left, unanswered) = engine.reaper.counts();
        engine.line.store.close().await;
        tracing::debug!(left, expiring, unanswered, in_time, "client closed");
        CloseReport {
            left,
            expiring,
            unanswered,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.engine.id)
            .field("namespace", &self.engine.settings.namespace)
            .field("store", &self.engine.line.store)
            .finish_non_exhaustive()
    }
}

/// Closes the client when the runtime drops its tasks, so that calls from another runtime fail instead of hanging.
struct CloseWithTask(Arc<watch::Sender<bool>>);

impl Drop for CloseWithTask {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

impl Engine {
    fn start(
        settings: Settings,
        store: Arc<dyn Store>,
        runtime: &tokio::runtime::Handle,
    ) -> Arc<Self> {
        let line = Arc::new(Line::new(Arc::clone(&store)));
        let renewals = Arc::new(Renewals::new(Arc::clone(&line)));
        let (hub, hub_task) = Hub::new(Arc::clone(&store), Arc::clone(&renewals));
        let (reaper, reaper_task) = reaper::Handle::new(Arc::clone(&line));
        let closed = Arc::new(watch::Sender::new(false));

        let until_closed = |mut closed: watch::Receiver<bool>| async move {
            // An error means that every sender is gone: closed too.
            let _ = closed.wait_for(|closed| *closed).await;
        };
        let watchdog = Arc::clone(&renewals);
        let (guard, end) = (
            CloseWithTask(Arc::clone(&closed)),
            until_closed(closed.subscribe()),
        );
        runtime.spawn(async move {
            let _guard = guard;
            tokio::select! { () = watchdog.run() => {}, () = end => {} }
        });
        let end = until_closed(closed.subscribe());
        runtime.spawn(async move {
            tokio::select! { () = hub_task => {}, () = end => {} }
        });
        runtime.spawn(async move {
            reaper_task.await;
            store.close().await;
        });

        let mut random = settings
            .seed
            .map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let id = match settings.seed {
            None => Uuid::new_v4(),
            Some(_) => uuid::Builder::from_random_bytes(random.u128(..).to_be_bytes()).into_uuid(),
        };
        let (gate, passage) = mpsc::channel(1);
        Arc::new(Self {
            line,
            renewals,
            hub,
            reaper,
            settings,
            id,
            owners: AtomicU64::new(1),
            tenures: AtomicU64::new(1),
            random: Mutex::new(random),
            closed,
            gate: Mutex::new(Some(gate)),
            passage: tokio::sync::Mutex::new(passage),
        })
    }

    pub(crate) fn new_owner(&self) -> Owner {
        Owner::new(self.id, self.owners.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn name(&self, name: &str) -> Result<Name> {
        Name::new(&self.settings.namespace, name)
    }

    /// A number for jitter and claims.
    pub(crate) fn random(&self) -> u64 {
        self.random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .u64(..)
    }

    /// A new claim with the duty to leave for it, before anything is sent.
    pub(crate) fn arm(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        owner: Owner,
        terms: Terms,
    ) -> Armed {
        let number = self.tenures.fetch_add(1, Ordering::Relaxed);
        let id = ClaimId::new(owner, self.random());
        let tenure = Arc::new(Tenure::new(number, id, Arc::clone(protocol), terms));
        Armed {
            tenure,
            engine: Arc::clone(self),
        }
    }

    /// A pass for one acquisition; closing waits until it is dropped.
    pub(crate) fn enter(&self) -> Result<mpsc::Sender<Infallible>> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.clone()
            .filter(|_| !*self.closed.borrow())
            .ok_or(Error::Closed)
    }

    /// Resolves when the client is closed.
    pub(crate) async fn closed(&self) {
        // An error means that every sender is gone: closed too.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    fn close_gate(&self) {
        self.gate
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.closed.send_replace(true);
    }
}
