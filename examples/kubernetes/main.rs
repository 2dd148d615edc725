//! A deployment in which one pod serves: all pods campaign, and only the leader is ready, so the service sends requests to it. The
//! manifest, `deployment.yaml` beside this file, has two replicas, a readiness probe that asks `/ready`, and a service.
//!
//! Read this when a service must have one active instance on Kubernetes. Readiness is checked every second and trusted for a few,
//! so a request may still reach a pod that no longer leads: what the leader writes carries the term, and a pod that does not lead
//! refuses. The same program runs under systemd with `examples/election.service`. `cargo example leader_probe` needs no
//! server and no cluster; add `-- --url redis://127.0.0.1:6379` for a server. The manifest is checked against the schemas of
//! Kubernetes 1.37, and its probe is asked here; it has not run on a cluster.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use lockkeeper::{Client, Election, Leadership};
use lockkeeper_examples::{Place, Story};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// What a probe reads: the leadership, while this pod has one.
type Leads = watch::Receiver<Option<Weak<Leadership>>>;

/// The manifest, which says where the cluster asks.
const MANIFEST: &str = include_str!("deployment.yaml");

/// The path that the probe of the manifest asks for.
fn probe() -> anyhow::Result<&'static str> {
    let (_, probe) = MANIFEST.split_once("readinessProbe:").context("no probe")?;
    let path = probe
        .lines()
        .find_map(|line| line.trim().strip_prefix("path: "));
    path.context("the probe asks for nothing")
}

/// The readiness probe: 200 while this pod leads. It compares clocks, and sends no request to the lock server.
async fn ready(State(leads): State<Leads>) -> StatusCode {
    let leadership = leads.borrow().as_ref().and_then(Weak::upgrade);
    match leadership.is_some_and(|leadership| leadership.is_leader()) {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// One pod: campaigns, and answers its probe.
struct Pod {
    address: SocketAddr,
    client: Client,
    campaign: JoinHandle<lockkeeper::Result<()>>,
    server: JoinHandle<std::io::Result<()>>,
    stop: Arc<tokio::sync::Notify>,
}

impl Pod {
    async fn start(client: Client) -> anyhow::Result<Self> {
        let (tell, leads) = watch::channel(None);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let routes = Router::new().route("/ready", get(ready)).with_state(leads);
        let stop = Arc::new(tokio::sync::Notify::new());
        let stopped = Arc::clone(&stop);
        let election = Election::new(&client, "api").value(address.to_string());
        let campaign = tokio::spawn(async move {
            let run = election.run(|leadership| {
                // Weak, so that it ends with its term.
                tell.send_replace(Some(Arc::downgrade(&leadership)));
                std::future::pending::<ControlFlow<()>>()
            });
            tokio::select! {
                // SIGTERM in a real pod. Dropping `run` resigns, and closing the client waits for that.
                () = stopped.notified() => Ok(()),
                ended = run => ended,
            }
        });
        Ok(Self {
            address,
            client,
            campaign,
            server: tokio::spawn(axum::serve(listener, routes).into_future()),
            stop,
        })
    }

    /// What the kubelet does every second.
    async fn is_ready(&self) -> anyhow::Result<bool> {
        let mut stream = TcpStream::connect(self.address).await?;
        let path = probe()?;
        let ask = format!("GET {path} HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n");
        stream.write_all(ask.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    }

    /// What happens between SIGTERM and the end of the pod.
    async fn end(self) -> anyhow::Result<()> {
        self.stop.notify_one();
        self.campaign.await??;
        self.server.abort();
        let report = self.client.close().await;
        ensure!(
            report.unconfirmed == 0 && report.expiring == 0,
            "{report:?}"
        );
        Ok(())
    }
}

/// The pods that are ready; waits until there is one.
async fn ready_pod(pods: &[Pod]) -> anyhow::Result<usize> {
    let found = async {
        loop {
            let mut ready = Vec::new();
            for (number, pod) in pods.iter().enumerate() {
                if pod.is_ready().await? {
                    ready.push(number);
                }
            }
            if let Some(first) = ready.first() {
                ensure!(ready.len() == 1, "two are ready");
                return Ok(*first);
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), found).await?
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (place, story) = (Place::open("leader_probe").await?, Story::new());

    story.chapter("Two pods, one of which is ready");
    let mut pods = Vec::new();
    for _ in 0..2 {
        pods.push(Pod::start(place.another().await?).await?);
    }
    let first = ready_pod(&pods).await?;
    story.tell("service", format!("sends requests to pod {first}"));

    story.chapter("A rolling update ends that pod");
    let old = pods.remove(first);
    let gone = old.address.to_string();
    old.end().await?;
    let second = ready_pod(&pods).await?;
    story.tell(
        "service",
        format!("sends requests to {}", pods[second].address),
    );
    let leader = Election::new(&place.client, "api").leader().await?;
    let leader = leader.context("nobody leads")?;
    ensure!(leader.value != gone, "the old one leads");

    for pod in pods {
        pod.end().await?;
    }
    place.close().await
}
