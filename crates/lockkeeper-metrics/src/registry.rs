//! The recorder in which series are registered, and the label that all of them have.

use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};

use crate::table::{ALL, Metric, Sort};

const METADATA: Metadata<'_> = Metadata::new("lockkeeper", Level::INFO, Some("lockkeeper_metrics"));

/// A recorder (the global one if none is given), and the name of the client in it.
#[derive(Default)]
pub(crate) struct Registry {
    recorder: Option<Arc<dyn Recorder + Send + Sync>>,
    client: Option<Arc<str>>,
}

impl Registry {
    pub(crate) fn of(recorder: Arc<dyn Recorder + Send + Sync>) -> Self {
        Self {
            recorder: Some(recorder),
            client: None,
        }
    }

    pub(crate) fn name_client(&mut self, name: String) {
        self.client = Some(name.into());
    }

    /// Describes all metrics to the recorder.
    pub(crate) fn describe(&self) {
        self.with(|recorder| {
            for metric in ALL {
                let (name, help) = (metric.name.into(), metric.help.into());
                match metric.sort {
                    Sort::Counter => recorder.describe_counter(name, Some(metric.unit), help),
                    Sort::Gauge => recorder.describe_gauge(name, Some(metric.unit), help),
                    Sort::Histogram => recorder.describe_histogram(name, Some(metric.unit), help),
                }
            }
        });
    }

    pub(crate) fn counter(&self, metric: &Metric, labels: &[Label]) -> Counter {
        let key = self.key(metric, labels);
        self.with(|recorder| recorder.register_counter(&key, &METADATA))
    }

    pub(crate) fn gauge(&self, metric: &Metric, labels: &[Label]) -> Gauge {
        let key = self.key(metric, labels);
        self.with(|recorder| recorder.register_gauge(&key, &METADATA))
    }

    pub(crate) fn histogram(&self, metric: &Metric, labels: &[Label]) -> Histogram {
        let key = self.key(metric, labels);
        self.with(|recorder| recorder.register_histogram(&key, &METADATA))
    }

    fn key(&self, metric: &Metric, labels: &[Label]) -> Key {
        let client = self.client.iter().cloned();
        let client = client.map(|client| Label::new("client", client));
        let labels: Vec<_> = labels.iter().cloned().chain(client).collect();
        Key::from_parts(metric.name, labels)
    }

    fn with<T>(&self, f: impl FnOnce(&dyn Recorder) -> T) -> T {
        match &self.recorder {
            Some(recorder) => f(&**recorder),
            None => metrics::with_recorder(f),
        }
    }
}
