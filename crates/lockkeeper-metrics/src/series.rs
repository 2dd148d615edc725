//! Series that are registered once, so that an acquisition looks nothing up in the recorder.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use lockkeeper_core::{AcquisitionOutcome, Kind, LossReason, Work};
use metrics::{Counter, Gauge, Histogram, Label};

use crate::registry::Registry;
use crate::table::{self, Metric};

/// The series of a client, for all its locks together.
pub(crate) struct OfClient {
    pub(crate) disconnects: Counter,
    pub(crate) uncertain: Counter,
    pub(crate) slack: Histogram,
    /// Empty until something is known about the connections.
    connected: OnceLock<Gauge>,
    claims: ByWord<Histogram>,
    lateness: ByWord<Histogram>,
}

impl OfClient {
    pub(crate) fn new(registry: &Registry) -> Self {
        let works = [Work::Renewal, Work::Heartbeat].map(Work::as_str);
        let by_work = |metric| ByWord::of(metric, "work", &works, Vec::new(), Registry::histogram);
        Self {
            disconnects: registry.counter(&table::DISCONNECTS, &[]),
            uncertain: registry.counter(&table::UNCERTAIN, &[]),
            slack: registry.histogram(&table::SLACK_SECONDS, &[]),
            connected: OnceLock::new(),
            claims: by_work(&table::BATCH_CLAIMS),
            lateness: by_work(&table::BATCH_LATENESS_SECONDS),
        }
    }

    /// Notes that a connection is down, or that all of them are up again.
    pub(crate) fn connected(&self, registry: &Registry, are_there: bool) {
        let gauge = || registry.gauge(&table::CONNECTED, &[]);
        let gauge = self.connected.get_or_init(gauge);
        gauge.set(u8::from(are_there));
    }

    /// Notes that a server has answered. Connections that have been up from the beginning cause no other event.
    pub(crate) fn answered(&self, registry: &Registry) {
        self.connected.get_or_init(|| {
            let gauge = registry.gauge(&table::CONNECTED, &[]);
            gauge.set(1);
            gauge
        });
    }

    /// Notes that one script is sent for this many claims, this much later than planned.
    pub(crate) fn batch(&self, registry: &Registry, work: Work, claims: usize, late: Duration) {
        let work = work.as_str();
        self.claims
            .with(registry, work, |it| it.record(claims as f64));
        self.lateness.with(registry, work, |it| it.record(late));
    }
}

/// The series of the locks of one kind, and of one label if there are labels.
pub(crate) struct OfLocks {
    pub(crate) acquiring: Gauge,
    pub(crate) waiters: Gauge,
    pub(crate) holders: Gauge,
    pub(crate) renewals: Counter,
    pub(crate) unconfirmed: Counter,
    hold: Histogram,
    outcomes: ByWord<Counter>,
    took: ByWord<Histogram>,
    losses: ByWord<Counter>,
}

impl OfLocks {
    pub(crate) fn new(registry: &Registry, kind: Kind, label: Option<Cow<'static, str>>) -> Self {
        let mut labels = vec![Label::from_static_parts("kind", kind.as_str())];
        labels.extend(label.map(|label| Label::new("name", label)));
        let outcomes = AcquisitionOutcome::ALL.iter().map(|it| it.as_str());
        let outcomes: Vec<_> = outcomes.collect();
        let reasons = [
            LossReason::Expired,
            LossReason::Gone,
            LossReason::Revoked,
            LossReason::MaxHold,
            LossReason::ClientClosed,
        ];
        let reasons = reasons.map(LossReason::as_str);
        let counters = |metric, key, words: &[&'static str]| {
            let counters = ByWord::of(metric, key, words, labels.clone(), Registry::counter);
            // An alert on a rate needs a zero before the first event.
            for word in words {
                counters.with(registry, word, |_| {});
            }
            counters
        };
        Self {
            acquiring: registry.gauge(&table::ACQUIRING, &labels),
            waiters: registry.gauge(&table::WAITERS, &labels),
            holders: registry.gauge(&table::HOLDERS, &labels),
            renewals: registry.counter(&table::RENEWALS, &labels),
            unconfirmed: registry.counter(&table::UNCONFIRMED, &labels),
            hold: registry.histogram(&table::HOLD_SECONDS, &labels),
            outcomes: counters(&table::ACQUISITIONS, "outcome", &outcomes),
            losses: counters(&table::LOSSES, "reason", &reasons),
            took: ByWord::of(
                &table::ACQUIRE_SECONDS,
                "outcome",
                &outcomes,
                labels,
                Registry::histogram,
            ),
        }
    }

    /// Notes the end of an acquisition.
    pub(crate) fn acquired(
        &self,
        registry: &Registry,
        outcome: AcquisitionOutcome,
        took: Duration,
    ) {
        let word = outcome.as_str();
        self.outcomes.with(registry, word, |it| it.increment(1));
        self.took.with(registry, word, |it| it.record(took));
    }

    /// Notes that a lease was lost.
    pub(crate) fn lost(&self, registry: &Registry, reason: LossReason) {
        self.losses
            .with(registry, reason.as_str(), |it| it.increment(1));
    }

    /// Notes the end of a lease, for whatever reason.
    pub(crate) fn held(&self, held: Duration) {
        self.holders.decrement(1);
        self.hold.record(held);
    }
}

/// Series of one metric that differ in one label, whose values are a few known words. Each is registered when it is first
/// used.
struct ByWord<T> {
    metric: &'static Metric,
    key: &'static str,
    known: Vec<(&'static str, OnceLock<T>)>,
    /// The other labels.
    labels: Vec<Label>,
    register: Register<T>,
}

type Register<T> = fn(&Registry, &Metric, &[Label]) -> T;

impl<T> ByWord<T> {
    fn of(
        metric: &'static Metric,
        key: &'static str,
        words: &[&'static str],
        labels: Vec<Label>,
        register: Register<T>,
    ) -> Self {
        let known = words.iter().map(|word| (*word, OnceLock::new())).collect();
        Self {
            metric,
            key,
            known,
            labels,
            register,
        }
    }

    fn with(&self, registry: &Registry, word: &'static str, f: impl FnOnce(&T)) {
        let register = || {
            let mut labels = self.labels.clone();
            labels.push(Label::from_static_parts(self.key, word));
            (self.register)(registry, self.metric, &labels)
        };
        match self.known.iter().find(|(known, _)| *known == word) {
            Some((_, series)) => f(series.get_or_init(register)),
            // A word that is not in the list is registered each time.
            None => f(&register()),
        }
    }
}
