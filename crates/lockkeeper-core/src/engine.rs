//! The engine: what all locks of a client share, and the three tasks that work for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::client::CloseReport;
use crate::error::{Error, Result};
use crate::exchange::Line;
use crate::hold::Armed;
use crate::name::Name;
use crate::notify::Hub;
use crate::notify::presence::{Presence, client_key};
use crate::owner::{ClaimId, Owner};
use crate::pass::{Pass, Passes};
use crate::protocol::Protocol;
use crate::reaper;
use crate::renewal::Renewals;
use crate::settings::Settings;
use crate::store::{Event, Store};
use crate::switch::Switch;
use crate::tenure::{Tenure, Terms};

/// How long the store may take to say goodbye to the server: for that it needs one round trip.
const TAKING_LEAVE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) line: Arc<Line>,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) reaper: reaper::Handle,
    pub(crate) settings: Settings,
    pub(crate) id: Uuid,
    owners: AtomicU64,
    tenures: AtomicU64,
    random: Mutex<fastrand::Rng>,
    passes: Arc<Passes>,
    /// No new work.
    closed: Arc<Switch>,
    /// No work at all.
    finished: Arc<Switch>,
}

/// Closes the client when one of its tasks ends, however that comes: calls must fail then instead of waiting for ever.
/// It happens when the runtime of the client is shut down while another one still uses it.
struct CloseWithTask(Arc<Switch>);

impl Drop for CloseWithTask {
    fn drop(&mut self) {
        self.0.throw();
    }
}

/// Runs a task until it ends or `end` says so.
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
        let (observed, namespace) = (settings.observed.clone(), &settings.namespace);
        let line = Arc::new(Line::new(Arc::clone(&store), observed, namespace));
        let (reaper, posts) = reaper::Handle::new();
        let renewals = Arc::new(Renewals::new(Arc::clone(&line), reaper.clone()));
        let mut random = settings
            .seed
            .map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let id = match settings.seed {
            None => Uuid::new_v4(),
            Some(_) => uuid::Builder::from_random_bytes(random.u128(..).to_be_bytes()).into_uuid(),
        };
        let label = settings.label();
        let presence = Presence {
            id,
            key: client_key(namespace, id),
            label,
        };
        let (hub, hub_task) = Hub::new(Arc::clone(&store), events, Arc::clone(&renewals), presence);
        let reaper_task = posts.leave_for_all(Arc::clone(&line), Arc::clone(&hub));
        let closed = Arc::<Switch>::default();
        let finished = Arc::<Switch>::default();

        let guard = || CloseWithTask(Arc::clone(&closed));
        let watchdog = Arc::clone(&renewals);
        let watchdog_task = async move { watchdog.run().await };
        runtime.spawn(until(Arc::clone(&closed), watchdog_task, guard()));
        runtime.spawn(until(Arc::clone(&closed), hub_task, guard()));
        let reaping = until(Arc::clone(&finished), reaper_task, guard());
        runtime.spawn(async move {
            reaping.await;
            store.close().await;
        });

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

    /// A number for jitter and claims.
    pub(crate) fn random(&self) -> u64 {
        self.random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .u64(..)
    }

    /// A new claim with the duty to leave for it, before anything is sent; one that is to take another's place is bound to
    /// what that was bound to.
    pub(crate) fn arm(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        owner: Owner,
        terms: Terms,
        predecessor: Option<&Arc<Tenure>>,
    ) -> Armed {
        self.arm_as(self.claim(owner), protocol, terms, predecessor)
    }

    /// A claim of `owner` that has not been before.
    pub(crate) fn claim(&self, owner: Owner) -> ClaimId {
        let random = if mutant!(ReuseClaim) {
            0
        } else {
            self.random()
        };
        ClaimId::new(owner, random)
    }

    /// The same for a claim that is made already: one that asks several servers at once.
    pub(crate) fn arm_as(
        self: &Arc<Self>,
        id: ClaimId,
        protocol: &Arc<dyn Protocol>,
        terms: Terms,
        predecessor: Option<&Arc<Tenure>>,
    ) -> Armed {
        let number = self.tenures.fetch_add(1, Ordering::Relaxed);
        let tenure = Tenure::new(number, id, Arc::clone(protocol), terms);
        let tenure = match predecessor {
            Some(old) => tenure.in_place_of(Arc::clone(old)),
            None => tenure,
        };
        Armed::new(Arc::new(tenure), Arc::clone(self))
    }

    /// Ends belief in a claim; from here on nothing but a leave is sent for it.
    pub(crate) fn end(&self, tenure: &Arc<Tenure>) {
        let now = self.line.clock.now();
        tenure.change(|claim| claim.end(now));
        self.renewals.remove(tenure);
    }

    /// Waits until what was given up of these names has left them, for no longer than `longest`. What is given up from now on
    /// is not waited for.
    pub(crate) async fn departed(&self, names: &[&Name], longest: Duration) {
        let Some(last) = self.reaper.departing(names) else {
            return;
        };
        let all = async {
            for name in names {
                self.reaper.departed(name, last).await;
            }
        };
        if tokio::time::timeout(longest, all).await.is_err() {
            tracing::debug!(?longest, "what was given up has not left in time");
        }
    }

    /// A pass for one acquisition or release; closing waits until it is dropped.
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

    /// The same, or when there is no engine any more.
    pub(crate) fn until_closed(&self) -> impl Future<Output = ()> + use<> {
        let closed = Arc::clone(&self.closed);
        async move { closed.thrown().await }
    }

    /// See [`Client::close`](crate::Client::close).
    pub(crate) async fn close(&self) -> CloseReport {
        self.closed.throw();
        let forsaken = self.renewals.forsake_all();
        let orderly = async {
            self.passes.all_returned().await;
            self.reaper.drained().await;
        };
        let in_time = tokio::time::timeout(self.settings.release_timeout, orderly)
            .await
            .is_ok();
        // Grants that were on their way when the client was closed.
        let expiring = forsaken + self.renewals.forsake_all();
        let (confirmed, unconfirmed) = self.reaper.counts();
        let unconfirmed = unconfirmed + self.passes.out();
        self.finished.throw();
        // The store's tasks may live on a runtime that nobody drives any more.
        let _ = tokio::time::timeout(TAKING_LEAVE, self.line.store.close()).await;
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
