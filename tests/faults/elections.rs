//! Elections between processes on a real server. Leaders are killed, stopped, cut off and told to resign.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper::{Client, Election, FencingToken};
use lockkeeper_testkit::history::{History, ValidSpan};
use lockkeeper_testkit::proxy::{Direction, Proxy};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::HOLDER;
use lockkeeper_tests::holder::{Holder, millis};

/// The ttl of leaders and of candidates.
const TTL: Duration = Duration::from_millis(600);

/// How a term ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Resigned,
    Killed,
    Stopped,
    CutOff,
}

const ENDS: [End; 4] = [End::Resigned, End::Killed, End::Stopped, End::CutOff];

/// A process that campaigns again and again, over a connection of its own.
struct Host {
    holder: Holder,
    proxy: Proxy,
    ttl: Duration,
}

impl Host {
    async fn start(server: &Server, ttl: Duration) -> Result<Self> {
        let proxy = Proxy::in_front_of(server).await?;
        let holder = Holder::start(HOLDER, &["elect", proxy.url(), "name", &millis(ttl)])?;
        Ok(Self { holder, proxy, ttl })
    }

    /// Ends its term. A killed process is replaced by another one; returns what it had printed.
    async fn ends(&mut self, how: End, server: &Server) -> Result<Vec<String>> {
        match how {
            End::Resigned => self.holder.send("resign").await?,
            End::Killed => {
                let killed = std::mem::replace(self, Self::start(server, self.ttl).await?);
                return killed.holder.last_words().await;
            }
            End::Stopped => self.holder.signal("-STOP")?,
            End::CutOff => {
                self.proxy.black_hole(Direction::ToServer);
                self.proxy.black_hole(Direction::ToClient);
            }
        }
        Ok(Vec::new())
    }

    /// Resumes a stopped or cut-off process once another one leads.
    fn goes_on(&self, from: End) -> Result<()> {
        match from {
            End::Stopped => self.holder.signal("-CONT")?,
            End::CutOff => {
                self.proxy.clear();
                self.proxy.reset_all();
            }
            End::Resigned | End::Killed => {}
        }
        Ok(())
    }
}

/// The next line that any of the processes prints, and the number of the process.
async fn next(hosts: &mut [Host]) -> Result<(usize, String)> {
    let lines = hosts.iter_mut().map(|host| Box::pin(host.holder.line()));
    let mut lines: Vec<_> = lines.collect();
    poll_fn(|context| {
        let polled = lines.iter_mut().enumerate().find_map(|(number, line)| {
            match line.as_mut().poll(context) {
                Poll::Ready(line) => Some(line.map(|line| (number, line))),
                Poll::Pending => None,
            }
        });
        polled.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Observes until it is stopped, and panics if a term goes back.
async fn observe(client: Client, seen: Arc<Mutex<BTreeSet<FencingToken>>>) -> Result<()> {
    let mut leaders = Election::new(&client, "name").observe();
    while let Some(leader) = leaders.next().await {
        let Some(leader) = leader? else { continue };
        let mut seen = seen.lock();
        let last = seen.last().copied();
        assert!(last <= Some(leader.term), "{last:?}, then {leader:?}");
        seen.insert(leader.term);
    }
    bail!("the stream ended")
}

/// Ends this many terms, in each way in turn. Returns how long there was no leader each time.
async fn reign(
    server: &Server,
    terms: usize,
    ttl: Duration,
    cuts: &Proxy,
) -> Result<BTreeMap<End, Vec<Duration>>> {
    let mut hosts = Vec::new();
    for _ in 0..4 {
        hosts.push(Host::start(server, ttl).await?);
    }
    let mut spans = BTreeMap::<u64, ValidSpan>::new();
    let mut gaps = BTreeMap::<End, Vec<Duration>>::new();
    let mut ending: Option<(usize, End, Instant)> = None;
    while spans.len() <= terms {
        let (number, line) = timeout(PATIENCE, next(&mut hosts)).await??;
        let span: ValidSpan = line.parse()?;
        let (term, is_new) = (span.token, !spans.contains_key(&span.token));
        spans.insert(term, span);
        if !is_new {
            continue;
        }
        if let Some((host, how, since)) = ending.take() {
            gaps.entry(how).or_default().push(since.elapsed());
            hosts[host].goes_on(how)?;
        }
        if spans.len().is_multiple_of(10) {
            cuts.reset_all();
        }
        let how = ENDS[spans.len() % ENDS.len()];
        ending = Some((number, how, Instant::now()));
        for line in hosts[number].ends(how, server).await? {
            let span: ValidSpan = line.parse()?;
            spans.insert(span.token, span);
        }
    }
    let history = History::default();
    spans.into_values().for_each(|span| history.record(span));
    let grants = history.check();
    assert!(matches!(grants, Ok(grants) if grants > terms), "{grants:?}");
    Ok(gaps)
}

/// At most one process leads at any moment, and observers never go back; one of them loses its connection now and then.
async fn terms_of_processes(server: &Server, terms: usize, ttl: Duration) -> Result<()> {
    let cuts = Proxy::in_front_of(server).await?;
    let (mut observers, mut all_seen) = (JoinSet::new(), Vec::new());
    for url in [&*server.url(), cuts.url()] {
        let client = lockkeeper::connect_with(url, Client::builder().waiter_ttl(ttl)).await?;
        let seen = Arc::default();
        all_seen.push(Arc::clone(&seen));
        observers.spawn(observe(client, seen));
    }
    let gaps = tokio::select! {
        gaps = reign(server, terms, ttl, &cuts) => gaps?,
        Some(failed) = observers.join_next() => return failed.context("a term went back")?,
    };
    for seen in all_seen {
        let seen = seen.lock().len();
        // Of two terms in quick succession, it may see only the second.
        ensure!(seen > terms / 2, "an observer has seen {seen} terms");
    }
    for (how, mut gaps) in gaps {
        gaps.sort();
        let longest = gaps.last().copied().context("no gap")?;
        println!(
            "{how:?}: {} terms, nobody led for {:?} at the median, {longest:?} at most",
            gaps.len(),
            gaps[gaps.len() / 2]
        );
        // The rest of the ttl, a heartbeat, and a margin for this machine.
        ensure!(longest <= ttl * 5, "{how:?}: {longest:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_one_of_many_processes_leads_whatever_ends_its_term() -> Result<()> {
    let server = Server::start().await?;
    beyond_stalls(&server, TTL, async |ttl| {
        terms_of_processes(&server, 8, ttl).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: `cargo xtask prove` runs it"]
async fn over_a_hundred_terms_at_most_one_of_many_processes_leads() -> Result<()> {
    let server = Server::start().await?;
    beyond_stalls(&server, TTL, async |ttl| {
        terms_of_processes(&server, 100, ttl).await
    })
    .await
}
