//! Metrics of locks, reported through the crate [`metrics`], which has exporters for Prometheus, OpenTelemetry, StatsD and
//! others.
//!
//! Use it through the crate `lockkeeper` with the feature `metrics`, as `lockkeeper::Metrics`.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod registry;
mod series;
mod table;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use lockkeeper_core::{AcquisitionEvent, ClientEvent, Kind, LeaseEvent, Observed, Observer};
use metrics::Recorder;
use parking_lot::RwLock;

use registry::Registry;
use series::{OfClient, OfLocks};

/// An [`Observer`] that counts and measures what happens to the locks of a client.
///
/// | metric | labels | what |
/// |---|---|---|
/// | `lockkeeper_acquisitions_total` | `kind`, `outcome` | acquisitions that ended; the outcomes are those of [`AcquisitionOutcome`](lockkeeper_core::AcquisitionOutcome) |
/// | `lockkeeper_acquire_seconds` | `kind`, `outcome` | histogram: how long they took, the wait included |
/// | `lockkeeper_acquiring` | `kind` | gauge: acquisitions in progress |
/// | `lockkeeper_waiters` | `kind` | gauge: those of them that wait for another holder or waiter |
/// | `lockkeeper_holders` | `kind` | gauge: leases that are held |
/// | `lockkeeper_hold_seconds` | `kind` | histogram: how long leases were held |
/// | `lockkeeper_renewals_total` | `kind` | renewals that were answered |
/// | `lockkeeper_renewal_slack_seconds` | | histogram: what was left of a lease when its renewal was answered |
/// | `lockkeeper_uncertain_renewals_total` | | renewals that were not answered |
/// | `lockkeeper_losses_total` | `kind`, `reason` | leases that were lost; the reasons are those of [`LossReason`](lockkeeper_core::LossReason) |
/// | `lockkeeper_unconfirmed_releases_total` | `kind` | releases that no server has confirmed |
/// | `lockkeeper_connected` | | gauge: 0 while a connection, or a node of a cluster, is down, until all of them are up again; otherwise 1 |
/// | `lockkeeper_disconnects_total` | | how often a connection went down |
/// | `lockkeeper_batch_claims` | `work` | histogram: for how many claims one script was sent; the values of `work` are those of [`Work`](lockkeeper_core::Work) |
/// | `lockkeeper_batch_lateness_seconds` | `work` | histogram: how much later than planned the script was sent |
///
/// The counters and gauges of a kind exist from its first acquisition on, and are zero until something happens.
///
/// Your program chooses the exporter. Install it before you make the first client: metrics that are registered earlier reach no
/// exporter. The exporter decides whether histograms have buckets, and which ones.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use lockkeeper_core::Client;
/// use lockkeeper_metrics::Metrics;
/// use metrics_exporter_prometheus::PrometheusBuilder;
/// # use lockkeeper_memory::MemoryStore;
/// # use lockkeeper_mutex::Mutex;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let exporter = PrometheusBuilder::new().install_recorder()?;
/// let settings = Client::builder().observer(Arc::new(Metrics::new()));
/// # let client = settings.build(Arc::new(MemoryStore::new()))?;
/// Mutex::new(&client, "invoice:42").acquire().await?.release().await?;
///
/// let page = exporter.render();
/// assert!(page.contains(r#"lockkeeper_acquisitions_total{kind="mutex",outcome="granted"} 1"#));
/// assert!(page.contains(r#"lockkeeper_holders{kind="mutex"} 0"#));
/// # Ok(())
/// # }
/// ```
///
/// To add an observer of your own, pass both as a pair:
///
/// ```
/// # use std::sync::Arc;
/// # use lockkeeper_core::{Client, LeaseEvent, Observed, Observer};
/// # use lockkeeper_metrics::Metrics;
/// #[derive(Debug)]
/// struct Audit;
///
/// impl Observer for Audit {
///     fn on_lease(&self, of: &Observed<'_>, claim: &str, event: LeaseEvent) {
///         println!("{} {claim}: {event:?}", of.name);
///     }
/// }
///
/// let settings = Client::builder().observer(Arc::new((Metrics::new(), Audit)));
/// ```
pub struct Metrics {
    registry: Registry,
    label: Option<Box<Labelling>>,
    of_client: OnceLock<OfClient>,
    of_locks: RwLock<HashMap<Which, Arc<OfLocks>>>,
}

/// Maps the name of a lock to its label.
type Labelling = dyn Fn(&str) -> Cow<'static, str> + Send + Sync;

/// Which locks share their series: those of one kind, and of one label if there are labels.
type Which = (Kind, Option<Cow<'static, str>>);

impl Metrics {
    /// Creates metrics that report to the global recorder of the crate `metrics`.
    pub fn new() -> Self {
        Self::of(Registry::default())
    }

    /// Creates metrics that report to this recorder only, for tests and for programs that keep their tenants apart.
    pub fn with_recorder(recorder: Arc<dyn Recorder + Send + Sync>) -> Self {
        Self::of(Registry::of(recorder))
    }

    fn of(registry: Registry) -> Self {
        Self {
            registry,
            label: None,
            of_client: OnceLock::new(),
            of_locks: RwLock::default(),
        }
    }

    /// Gives every metric the label `client` with this value. Use it to tell several clients of one process apart. Without it,
    /// they count together, and `lockkeeper_connected` has the value that the last of them reported.
    #[must_use]
    pub fn client(mut self, name: impl Into<String>) -> Self {
        self.registry.name_client(name.into());
        self
    }

    /// Adds the label `name` to every metric that has the label `kind`. The function computes its value from the name of the
    /// lock.
    ///
    /// Each value creates one series for each of these metrics, in this process and in the system that stores them, for ever. So
    /// keep the values few: the label of `order:4711` is `order`, never the number. The same name must always have the same
    /// label, or gauges do not return to zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lockkeeper_metrics::Metrics;
    /// let metrics = Metrics::new().label_by(|name| match name.split_once(':') {
    ///     Some(("order", _)) => "order",
    ///     Some(("report", _)) => "report",
    ///     _ => "other",
    /// });
    /// ```
    #[must_use]
    pub fn label_by<L: Into<Cow<'static, str>>>(
        mut self,
        label: impl Fn(&str) -> L + Send + Sync + 'static,
    ) -> Self {
        self.label = Some(Box::new(move |name| label(name).into()));
        self
    }

    fn of_client(&self) -> &OfClient {
        self.of_client.get_or_init(|| {
            self.registry.describe();
            OfClient::new(&self.registry)
        })
    }

    fn of_locks(&self, of: &Observed<'_>) -> Arc<OfLocks> {
        let label = self.label.as_ref().map(|label| label(of.name));
        let which = (of.kind, label);
        if let Some(known) = self.of_locks.read().get(&which) {
            return Arc::clone(known);
        }
        // This describes the metrics before any of them is registered.
        self.of_client();
        let new = OfLocks::new(&self.registry, which.0, which.1.clone());
        let mut all = self.of_locks.write();
        Arc::clone(all.entry(which).or_insert_with(|| Arc::new(new)))
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Observer for Metrics {
    fn on_acquisition(&self, of: &Observed<'_>, event: AcquisitionEvent) {
        let locks = self.of_locks(of);
        match event {
            AcquisitionEvent::Began => locks.acquiring.increment(1),
            AcquisitionEvent::Waiting => {
                locks.waiters.increment(1);
                self.of_client().answered(&self.registry);
            }
            AcquisitionEvent::Ended {
                outcome,
                took,
                waited,
                ..
            } => {
                locks.acquiring.decrement(1);
                if waited {
                    locks.waiters.decrement(1);
                }
                locks.acquired(&self.registry, outcome, took);
            }
            _ => {}
        }
    }

    fn on_lease(&self, of: &Observed<'_>, _: &str, event: LeaseEvent) {
        match event {
            LeaseEvent::Granted { .. } => {
                self.of_locks(of).holders.increment(1);
                self.of_client().answered(&self.registry);
            }
            LeaseEvent::Renewed { slack, .. } => {
                self.of_locks(of).renewals.increment(1);
                self.of_client().slack.record(slack);
            }
            LeaseEvent::Uncertain => self.of_client().uncertain.increment(1),
            LeaseEvent::Lost { reason, held, .. } => {
                let locks = self.of_locks(of);
                locks.lost(&self.registry, reason);
                locks.held(held);
            }
            LeaseEvent::Released { held, .. } => self.of_locks(of).held(held),
            LeaseEvent::Unconfirmed { held, .. } => {
                let locks = self.of_locks(of);
                locks.unconfirmed.increment(1);
                locks.held(held);
            }
            _ => {}
        }
    }

    fn on_client(&self, event: ClientEvent) {
        let client = self.of_client();
        match event {
            ClientEvent::Disconnected => {
                client.disconnects.increment(1);
                client.connected(&self.registry, false);
            }
            ClientEvent::Connected => client.connected(&self.registry, true),
            ClientEvent::Batch {
                work, claims, late, ..
            } => client.batch(&self.registry, work, claims, late),
            _ => {}
        }
    }
}
