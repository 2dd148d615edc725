//! Texts that name metrics: each named metric exists, and tables of metrics are complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Metrics, Mutex};
use lockkeeper_memory::MemoryStore;
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, NoopRecorder, Recorder, SharedString, Unit,
};
use parking_lot::Mutex as Cell;

use super::exported::settings;

/// The described metrics.
#[derive(Default)]
struct Described(Cell<BTreeSet<String>>);

impl Described {
    fn add(&self, name: &KeyName, unit: Option<Unit>, help: &SharedString) {
        assert!(unit.is_some() && !help.is_empty(), "{name:?}");
        assert!(self.0.lock().insert(name.as_str().to_owned()), "{name:?}");
    }
}

impl Recorder for Described {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.add(&name, unit, &help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.add(&name, unit, &help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.add(&name, unit, &help);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        NoopRecorder.register_counter(key, metadata)
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        NoopRecorder.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        NoopRecorder.register_histogram(key, metadata)
    }
}

/// All metrics, which are described when the first lock is used.
async fn described() -> Result<BTreeSet<String>> {
    let described = Arc::new(Described::default());
    let recorder = Arc::clone(&described) as Arc<dyn Recorder + Send + Sync>;
    let client = settings(Metrics::with_recorder(recorder)).build(Arc::new(MemoryStore::new()))?;
    Mutex::new(&client, "name")
        .acquire()
        .await?
        .release()
        .await?;
    Ok(std::mem::take(&mut *described.0.lock()))
}

/// The names of metrics in a text, without the suffixes that an exporter adds to histograms.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("lockkeeper_"));
    let bare = |name: &str| {
        let mut endings = ["_bucket", "_count", "_sum"].into_iter();
        let bare = endings.find_map(|ending| name.strip_suffix(ending));
        bare.unwrap_or(name).to_owned()
    };
    names.map(bare).collect()
}

fn text(path: &str) -> Result<String> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(top.join(path)).with_context(|| format!("failed to read {path}"))
}

#[tokio::test(start_paused = true)]
async fn the_dashboard_asks_for_metrics_that_there_are() -> Result<()> {
    let dashboard = text("examples/grafana/dashboard.json")?;
    let described = described().await?;
    let named_anywhere = named(&dashboard);
    let unknown: Vec<_> = named_anywhere.difference(&described).collect();
    ensure!(unknown.is_empty(), "there are no such metrics: {unknown:?}");

    let dashboard: serde_json::Value = serde_json::from_str(&dashboard)?;
    let panels = dashboard["panels"].as_array().context("no panels")?;
    ensure!(!panels.is_empty(), "no panels");
    for panel in panels {
        let targets = panel["targets"].as_array().context("no targets")?;
        let mut queries = targets.iter().map(|target| target["expr"].as_str());
        let asks = queries.all(|query| query.is_some_and(|query| !named(query).is_empty()));
        ensure!(
            asks && !targets.is_empty(),
            "{} asks for no metric",
            panel["title"]
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_tables_of_metrics_are_whole() -> Result<()> {
    let described = described().await?;
    for path in ["docs/operations.md", "crates/lockkeeper-metrics/src/lib.rs"] {
        let page = text(path)?;
        let rows: String = page
            .lines()
            .filter(|line| {
                let row = line.trim_start_matches("/// ");
                // The metrics of `lockkeeper serve` have a table of their own.
                row.starts_with("| `lockkeeper_") && !row.contains("`lockkeeper_server_")
            })
            .filter_map(|line| line.split('|').nth(1))
            .collect();
        let listed = named(&rows);
        ensure!(
            listed == described,
            "{path}: {:?}",
            listed.symmetric_difference(&described)
        );
    }
    Ok(())
}
