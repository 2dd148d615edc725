//! The engine: what all locks of a client share, and the three tasks that work for them: the renewer, the
//! subscriptions and the background releaser. No lock has a task of its own, and no lease a timer.
//!
//! [Closing](Engine::close) refuses new work at once: acquisitions end with [`Error::Closed`], and holders lose their
//! leases, which expire on the server. For up to the release timeout it waits for the [passes](pass) of acquisitions
//! and releases under way, and for the background releaser. Then the releaser ends and the store disconnects, within
//! 1 s. A client that is only dropped still releases in the background what was given up, while its runtime lives; then
//! its tasks end.

pub(crate) mod background;
pub(crate) mod claims;
pub(crate) mod floors;
pub(crate) mod grant;
pub(crate) mod part;
pub(crate) mod pass;
pub(crate) mod posts;
pub(crate) mod refusals;
pub(crate) mod release;
pub(crate) mod renewal;
pub(crate) mod requester;
pub(crate) mod settings;
pub(crate) mod subscriptions;
pub(crate) mod switch;
pub(crate) mod sync;
pub(crate) mod terms;
#[cfg(feature = "shuttle")]
pub mod threads;
pub(crate) mod unreleased;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{Semaphore, mpsc};
use uuid::Uuid;

use crate::engine::part::Part;
use crate::engine::pass::{Pass, Passes};
use crate::engine::posts::Releaser;
use crate::engine::renewal::Renewer;
use crate::engine::requester::Requester;
use crate::engine::settings::Settings;
use crate::engine::subscriptions::Subscriptions;
use crate::engine::subscriptions::presence::{Presence, client_key};
use crate::engine::switch::Switch;
use crate::engine::terms::Terms;
use crate::seam::protocol::Protocol;
use crate::seam::store::{Event, Store};
use crate::words::chance::{Chance, Purpose};
use crate::words::ending::CloseReport;
use crate::words::error::{Error, Result};
use crate::words::name::Name;
use crate::words::owner::{ClaimId, Owner};

/// How long the store may take to disconnect from the server, which needs one round trip.
const TAKING_LEAVE: Duration = Duration::from_secs(1);

/// How many timed-out acquisitions of a client may ask for the holder at once, so that many waits that end together do
/// not load a busy server.
const LOOKS: usize = 16;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) requester: Arc<Requester>,
    pub(crate) renewer: Arc<Renewer>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) releaser: Releaser,
    pub(crate) settings: Settings,
    pub(crate) id: Uuid,
    /// Limits how many acquisitions that have timed out ask for the holder at once.
    pub(crate) looks: Semaphore,
    owners: AtomicU64,
    parts: AtomicU64,
    chance: Chance,
    acquisitions: AtomicU64,
    claims: AtomicU64,
    passes: Arc<Passes>,
    /// Set when no new work is accepted.
    closed: Arc<Switch>,
    /// Set when all work is over.
    finished: Arc<Switch>,
}

/// Closes the client when one of its tasks ends, for whatever reason: calls must then fail instead of waiting for ever, and
/// holders must learn that nobody renews their leases. A task ends early if the client's runtime is shut down while another
/// runtime still uses the client.
struct CloseWithTask {
    closed: Arc<Switch>,
    /// For the task that closes the store when it ends.
    finished: Option<Arc<Switch>>,
    /// It does not keep the releaser's inbox open.
    renewer: Weak<Renewer>,
}

impl Drop for CloseWithTask {
    fn drop(&mut self) {
        self.closed.throw();
        if let Some(finished) = &self.finished {
            finished.throw();
        }
        if let Some(renewer) = self.renewer.upgrade() {
            renewer.close();
        }
    }
}

/// Runs a task until it ends or `end` is set.
async fn until(end: Arc<Switch>, task: impl Future<Output = ()>, _guard: CloseWithTask) {
    tokio::select! {
        biased;
        () = end.thrown() => {}
        () = task => {}
    }
}

impl Engine {
    /// Starts the tasks on `runtime`.
    pub(crate) fn start(
        settings: Settings,
        store: Arc<dyn Store>,
        events: mpsc::UnboundedReceiver<Event>,
        runtime: &runtime::Handle,
    ) -> Arc<Self> {
        let (audience, namespace) = (settings.audience.clone(), &settings.namespace);
        let requester = Arc::new(Requester::new(
            Arc::clone(&store),
            audience,
            namespace,
            settings.store_name.clone(),
        ));
        let (releaser, posts) = Releaser::new();
        let renewer = Arc::new(Renewer::new(Arc::clone(&requester), releaser.clone()));
        // A claim begins with the uuid of its client, so its random half need not be a secret: it only has to differ from those
        // of the client's other claims.
        let chance = Chance::new(settings.seed.unwrap_or_else(|| fastrand::u64(..)));
        let id = match settings.seed {
            None => Uuid::new_v4(),
            Some(seed) => {
                let bytes = fastrand::Rng::with_seed(seed).u128(..).to_be_bytes();
                uuid::Builder::from_random_bytes(bytes).into_uuid()
            }
        };
        let label = settings.label();
        let presence = Presence {
            id,
            namespace: namespace.clone(),
            key: client_key(namespace, id),
            label,
        };
        let keyspace = settings.keyspace_notifications;
        let (subscriptions, listening) =
            Subscriptions::new(Arc::clone(&requester), events, presence, keyspace);
        let releasing = posts.release_all(Arc::clone(&requester), Arc::clone(&subscriptions));
        let closed = Arc::<Switch>::default();
        let finished = Arc::<Switch>::default();

        let guard = |finished: Option<&Arc<Switch>>| CloseWithTask {
            closed: Arc::clone(&closed),
            finished: finished.cloned(),
            renewer: Arc::downgrade(&renewer),
        };
        let renewals = Arc::clone(&renewer);
        let renewing = async move { renewals.run().await };
        runtime.spawn(until(Arc::clone(&closed), renewing, guard(None)));
        runtime.spawn(until(Arc::clone(&closed), listening, guard(None)));
        let releasing = until(Arc::clone(&finished), releasing, guard(Some(&finished)));
        runtime.spawn(async move {
            releasing.await;
            store.close().await;
        });

        Arc::new(Self {
            requester,
            renewer,
            subscriptions,
            releaser,
            settings,
            id,
            looks: Semaphore::new(LOOKS),
            owners: AtomicU64::new(1),
            parts: AtomicU64::new(1),
            chance,
            acquisitions: AtomicU64::new(1),
            claims: AtomicU64::new(1),
            passes: Arc::default(),
            closed,
            finished,
        })
    }

    pub(crate) fn new_owner(&self) -> Owner {
        Owner::new(self.id, self.owners.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn name(&self, name: &str) -> Result<Name> {
        Name::new(&self.settings.namespace, name)
    }

    /// The chance of a new acquisition.
    pub(crate) fn new_chance(&self) -> Chance {
        let number = self.acquisitions.fetch_add(1, Ordering::Relaxed);
        Chance::new(self.chance.draw(Purpose::Acquisition, number))
    }

    /// A new claim of `owner`.
    pub(crate) fn claim(&self, owner: Owner) -> ClaimId {
        let random = if mutant!(ReuseClaim) {
            0
        } else {
            let number = self.claims.fetch_add(1, Ordering::Relaxed);
            self.chance.draw(Purpose::Claim, number)
        };
        ClaimId::new(owner, random)
    }

    /// A part for a claim, before anything is sent. A part that replaces another takes over its limits.
    pub(crate) fn arm(
        &self,
        id: ClaimId,
        protocol: &Arc<dyn Protocol>,
        terms: Terms,
        note: Option<Arc<str>>,
        predecessor: Option<&Arc<Part>>,
    ) -> Arc<Part> {
        let number = self.parts.fetch_add(1, Ordering::Relaxed);
        let requester = Arc::clone(&self.requester);
        let part = Part::new(number, id, Arc::clone(protocol), terms, requester).with(note);
        Arc::new(match predecessor {
            Some(old) => part.in_place_of(old),
            None => part,
        })
    }

    /// Ends the validity of a claim. From here on only its release is sent.
    pub(crate) fn end(&self, part: &Arc<Part>) {
        let now = self.requester.clock.now();
        part.change(|claim| claim.end(now));
    }

    /// Waits until the pending releases of these names are done, for at most `longest`. It does not wait for releases
    /// that are posted from now on.
    pub(crate) async fn departed(&self, names: &[&Name], longest: Duration) {
        let Some(last) = self.releaser.departing(names) else {
            return;
        };
        let all = async {
            for name in names {
                self.releaser.departed(name, last).await;
            }
        };
        if tokio::time::timeout(longest, all).await.is_err() {
            tracing::debug!(
                ?longest,
                "earlier releases of these names are not done in time; acquiring anyway"
            );
        }
    }

    /// Issues a pass for one acquisition or release. Closing the client waits until the pass is dropped.
    pub(crate) fn enter(&self) -> Result<Pass> {
        let pass = self.passes.issue();
        if self.closed.is_thrown() {
            Err(Error::Closed)
        } else {
            Ok(pass)
        }
    }

    /// Resolves when the client is closed.
    pub(crate) async fn closed(&self) {
        self.closed.thrown().await;
    }

    /// Whether nothing can be sent any more, because the client has been closed or its runtime has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.is_thrown()
    }

    /// Like [`closed`](Self::closed), but the future does not keep the engine alive, and also resolves when the engine
    /// is dropped.
    pub(crate) fn until_closed(&self) -> impl Future<Output = ()> + use<> {
        let closed = Arc::clone(&self.closed);
        async move { closed.thrown().await }
    }

    /// See [`Client::close`](crate::Client::close).
    pub(crate) async fn close(&self) -> CloseReport {
        self.closed.throw();
        self.renewer.close();
        let orderly = async {
            self.passes.all_returned().await;
            self.releaser.drained().await;
        };
        let in_time = tokio::time::timeout(self.settings.release_timeout, orderly)
            .await
            .is_ok();
        // Gives up grants that were on their way when the client was closed.
        self.renewer.close();
        let expiring = self.renewer.take_given_up();
        let (confirmed, unconfirmed) = self.releaser.counts();
        let unconfirmed = unconfirmed + self.passes.out();
        self.finished.throw();
        // The runtime of the store's tasks may have been shut down.
        let _ = tokio::time::timeout(TAKING_LEAVE, self.requester.store.close()).await;
        tracing::debug!(confirmed, expiring, unconfirmed, in_time, "client closed");
        CloseReport {
            confirmed,
            expiring,
            unconfirmed,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.closed.throw();
    }
}
