//! All metrics: their names, types, units and meanings.

use metrics::Unit;

/// A metric.
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) sort: Sort,
    pub(crate) unit: Unit,
    pub(crate) help: &'static str,
}

/// The type of a metric.
pub(crate) enum Sort {
    Counter,
    Gauge,
    Histogram,
}

pub(crate) const ACQUISITIONS: Metric = Metric {
    name: "lockkeeper_acquisitions_total",
    sort: Sort::Counter,
    unit: Unit::Count,
    help: "Acquisitions that ended, by their outcome.",
};

pub(crate) const ACQUIRE_SECONDS: Metric = Metric {
    name: "lockkeeper_acquire_seconds",
    sort: Sort::Histogram,
    unit: Unit::Seconds,
    help: "How long acquisitions took, the wait included.",
};

pub(crate) const ACQUIRING: Metric = Metric {
    name: "lockkeeper_acquiring",
    sort: Sort::Gauge,
    unit: Unit::Count,
    help: "Acquisitions under way.",
};

pub(crate) const WAITERS: Metric = Metric {
    name: "lockkeeper_waiters",
    sort: Sort::Gauge,
    unit: Unit::Count,
    help: "Acquisitions that wait because somebody else is in the way.",
};

pub(crate) const HOLDERS: Metric = Metric {
    name: "lockkeeper_holders",
    sort: Sort::Gauge,
    unit: Unit::Count,
    help: "Leases that are held.",
};

pub(crate) const HOLD_SECONDS: Metric = Metric {
    name: "lockkeeper_hold_seconds",
    sort: Sort::Histogram,
    unit: Unit::Seconds,
    help: "How long leases were held, however they ended.",
};

pub(crate) const RENEWALS: Metric = Metric {
    name: "lockkeeper_renewals_total",
    sort: Sort::Counter,
    unit: Unit::Count,
    help: "Renewals that were answered.",
};

pub(crate) const SLACK_SECONDS: Metric = Metric {
    name: "lockkeeper_renewal_slack_seconds",
    sort: Sort::Histogram,
    unit: Unit::Seconds,
    help: "What was left of a lease when its renewal was answered.",
};

pub(crate) const UNCERTAIN: Metric = Metric {
    name: "lockkeeper_uncertain_renewals_total",
    sort: Sort::Counter,
    unit: Unit::Count,
    help: "Renewals that were not answered while the lease was still valid.",
};

pub(crate) const LOSSES: Metric = Metric {
    name: "lockkeeper_losses_total",
    sort: Sort::Counter,
    unit: Unit::Count,
    help: "Leases that were lost, by the reason.",
};

pub(crate) const UNCONFIRMED: Metric = Metric {
    name: "lockkeeper_unconfirmed_releases_total",
    sort: Sort::Counter,
    unit: Unit::Count,
    help: "Releases that no server has confirmed: there the lease ends with its ttl.",
};

pub(crate) const CONNECTED: Metric = Metric {
    name: "lockkeeper_connected",
    sort: Sort::Gauge,
    unit: Unit::Count,
    help: "0 from when a connection of the client is down until they are there again, otherwise 1.",
};

pub(crate) const DISCONNECTS: Metric = Metric {
    name: "lockkeeper_disconnects_total",
    sort: Sort::Counter,
    unit: Unit::Count,
    help: "How often a connection went down.",
};

pub(crate) const BATCH_CLAIMS: Metric = Metric {
    name: "lockkeeper_batch_claims",
    sort: Sort::Histogram,
    unit: Unit::Count,
    help: "For how many claims one script was sent by the client's own task.",
};

pub(crate) const BATCH_LATENESS_SECONDS: Metric = Metric {
    name: "lockkeeper_batch_lateness_seconds",
    sort: Sort::Histogram,
    unit: Unit::Seconds,
    help: "How much later than planned the client's own task sent a script.",
};

/// All of them.
pub(crate) const ALL: [&Metric; 15] = [
    &ACQUISITIONS,
    &ACQUIRE_SECONDS,
    &ACQUIRING,
    &WAITERS,
    &HOLDERS,
    &HOLD_SECONDS,
    &RENEWALS,
    &SLACK_SECONDS,
    &UNCERTAIN,
    &LOSSES,
    &UNCONFIRMED,
    &CONNECTED,
    &DISCONNECTS,
    &BATCH_CLAIMS,
    &BATCH_LATENESS_SECONDS,
];
