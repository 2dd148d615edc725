//! Metrics of locks for Prometheus: a service that serves its metrics at `/metrics`, and a dashboard for it in
//! `grafana/dashboard.json`.
//!
//! Read this when you put a service with locks into operation. `cargo example metrics` needs no server; add
//! `-- --url redis://127.0.0.1:6379` for one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use clap::Parser as _;
use lockkeeper::{Client, Error, Metrics, Mutex};
use lockkeeper_examples::{Arguments, Story};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

/// The buckets of the exporter's histograms of times: from a round trip to the longest lease, in seconds. Without buckets it
/// exports quantiles of each process, which cannot be added up.
const SECONDS: [f64; 13] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
];

/// One script serves up to a hundred claims.
const CLAIMS: [f64; 5] = [1.0, 3.0, 10.0, 30.0, 100.0];

/// Makes the exporter the one of this process. It must come first: what is counted before it is lost.
fn exporter() -> anyhow::Result<PrometheusHandle> {
    let exporter = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_claims".to_owned()), &CLAIMS)?
        .install_recorder()?;
    let upkeep = exporter.clone();
    tokio::spawn(async move {
        // Without this it keeps every value until somebody asks.
        let mut ticks = interval(Duration::from_secs(5));
        loop {
            ticks.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(exporter)
}

/// Few labels for many names: for `order:7` it is `order`.
fn first_word(name: &str) -> String {
    name.split(':').next().unwrap_or_default().to_owned()
}

fn routes(exporter: PrometheusHandle) -> Router {
    let page = async move || {
        let version = [(CONTENT_TYPE, "text/plain; version=0.0.4")];
        (version, exporter.render())
    };
    Router::new().route("/metrics", get(page))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let exporter = exporter()?;
    let metrics = Metrics::new().label_by(first_word);
    let settings = Client::builder()
        .namespace("metrics")
        .observer(Arc::new(metrics));
    let client = lockkeeper::connect_with(&Arguments::parse().url, settings).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let routes = routes(exporter);
    let server = tokio::spawn(async move { axum::serve(listener, routes).await });

    timeout(Duration::from_secs(60), story(&client, &address)).await??;
    server.abort();
    client.close().await;
    Ok(())
}

async fn story(client: &Client, address: &str) -> anyhow::Result<()> {
    let story = Story::new();

    story.chapter("Four want the same order");
    let lock = Mutex::new(client, "order:7");
    let first = lock.acquire().await?;
    let mut others = JoinSet::new();
    for _ in 0..3 {
        let lock = lock.clone();
        others.spawn(async move { lock.acquire().await?.release().await });
    }
    let waiters = r#"lockkeeper_waiters{kind="mutex",name="order"} "#;
    let page = page_with(address, &format!("{waiters}3")).await?;
    tell(story, &page, &[waiters, "lockkeeper_holders"]);
    first.release().await?;
    while let Some(other) = others.join_next().await {
        other??;
    }

    story.chapter("One does not wait, one gives up, and one is too slow for its lease");
    let ttl = Duration::from_secs(2);
    let lock = Mutex::new(client, "report:2026");
    let slow = lock.acquire().ttl(ttl).no_renewal().await?;
    ensure!(lock.try_acquire().await?.is_none());
    let patience = Duration::from_millis(100);
    let given_up = lock.acquire().wait_for(patience).await;
    ensure!(matches!(given_up, Err(Error::Timeout { .. })));
    slow.lost().await;
    drop(slow);

    let expired = r#"lockkeeper_losses_total{kind="mutex",name="report",reason="expired"} 1"#;
    let page = page_with(address, expired).await?;
    let ends = ["granted", "refused", "timed_out"];
    let ends = ends.map(|end| format!(r#"name="report",outcome="{end}"}}"#));
    let [granted, refused, timed_out] = &ends;
    let shown = [
        granted.as_str(),
        refused,
        timed_out,
        expired,
        "lockkeeper_connected",
        waiters,
        "lockkeeper_holders",
    ];
    tell(story, &page, &shown);
    for end in &ends {
        let counted = format!(r#"lockkeeper_acquisitions_total{{kind="mutex",{end} 1"#);
        ensure!(page.contains(&counted), "not there: {counted}");
    }
    for gauge in ["acquiring", "waiters", "holders"] {
        for name in ["order", "report"] {
            let zero = format!(r#"lockkeeper_{gauge}{{kind="mutex",name="{name}"}} 0"#);
            ensure!(page.contains(&zero), "not there: {zero}");
        }
    }
    Ok(())
}

/// Prints the lines that contain one of these, except those of histograms.
fn tell(story: Story, page: &str, shown: &[&str]) {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    for line in lines.filter(|line| !line.contains("_seconds")) {
        if shown.iter().any(|part| line.contains(part)) {
            story.tell("/metrics", line);
        }
    }
}

/// Returns the page, as soon as it has this line.
async fn page_with(address: &str, line: &str) -> anyhow::Result<String> {
    loop {
        let page = page(address).await?;
        if page.lines().any(|it| it == line) {
            return Ok(page);
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// What Prometheus receives.
async fn page(address: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let head = "GET /metrics HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, page) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "no page: {head}");
    Ok(page.to_owned())
}
