//! An exporter and its output.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{AcquisitionOutcome, Client, ClientBuilder, Metrics};
use lockkeeper_core::store::Store;
use metrics::Recorder;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

pub(super) const TTL: Duration = Duration::from_secs(6);

/// The most common exporter, for one test alone.
pub(super) struct Exported {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
}

impl Exported {
    pub(super) fn new() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        Self {
            recorder: Arc::new(recorder),
            handle,
        }
    }

    pub(super) fn metrics(&self) -> Metrics {
        Metrics::with_recorder(Arc::clone(&self.recorder) as Arc<dyn Recorder + Send + Sync>)
    }

    pub(super) fn client(&self, store: Arc<dyn Store>) -> Result<Client> {
        Ok(settings(self.metrics()).build(store)?)
    }

    /// The series of this metric with their values, ordered by labels.
    pub(super) fn series(&self, metric: &str) -> Vec<(String, f64)> {
        let page = self.handle.render();
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let mut series: Vec<_> = lines
            .filter_map(|line| {
                let (series, value) = line.rsplit_once(' ')?;
                let (name, labels) = series.split_once('{').unwrap_or((series, ""));
                let value = value.parse().ok()?;
                (name == metric).then(|| (labels.trim_end_matches('}').to_owned(), value))
            })
            .collect();
        series.sort_by(|one, other| one.0.cmp(&other.0));
        series
    }

    /// The sum of all series of this metric with these labels.
    pub(super) fn sum(&self, metric: &str, labels: &str) -> f64 {
        let series = self.series(metric).into_iter();
        let series = series.filter(|(has, _)| labels.split(',').all(|label| has.contains(label)));
        series.map(|(_, value)| value).sum()
    }

    /// Checks that all activity has ended, and that these were the acquisitions, by outcome.
    pub(super) fn ensure_over(&self, outcomes: &[(AcquisitionOutcome, u32)]) -> Result<()> {
        for gauge in ["acquiring", "waiters", "holders"] {
            let series = self.series(&format!("lockkeeper_{gauge}"));
            let at_zero = !series.is_empty() && series.iter().all(|(_, value)| *value == 0.0);
            ensure!(at_zero, "{gauge}: {series:?}");
        }
        for outcome in AcquisitionOutcome::ALL {
            let label = format!("outcome=\"{outcome}\"");
            let expected = outcomes.iter().filter(|(it, _)| *it == *outcome);
            let expected: f64 = expected.map(|(_, times)| f64::from(*times)).sum();
            for metric in ["acquisitions_total", "acquire_seconds_count"] {
                let counted = self.sum(&format!("lockkeeper_{metric}"), &label);
                ensure!(
                    counted == expected,
                    "{metric}: {outcome} {counted} times, not {expected}"
                );
            }
        }
        Ok(())
    }
}

pub(super) fn settings(metrics: Metrics) -> ClientBuilder {
    Client::builder().ttl(TTL).observer(Arc::new(metrics))
}
