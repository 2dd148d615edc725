//! Once: one run for all callers, one successor for a runner that dies, and no result that is stored too late.

mod faults;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper::{Client, Error, HolderState, LossReason, Mutex, Once, OnceError, OnceOutcome};
use lockkeeper_lua::{lock, once};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::gated::drop_after;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::{client, faulty, patient, polling, until};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(6);
const RECORD: &str = "lockkeeper.record:{lockkeeper:name}";
const WAKES: &str = "lockkeeper.wake:{lockkeeper:name}";

/// The error of failed work in these tests.
#[derive(Debug)]
struct Failure;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the work failed")
    }
}

impl std::error::Error for Failure {}

type Outcome = Result<OnceOutcome, OnceError<Failure>>;

/// Does work that makes this value.
async fn make(once: &Once, value: &str) -> Outcome {
    once.get_or_run(async |_| Ok(value.as_bytes().to_vec()))
        .await
}

fn ran(value: &str) -> OnceOutcome {
    OnceOutcome::Ran(value.as_bytes().to_vec())
}

fn stored(value: &str) -> OnceOutcome {
    OnceOutcome::Stored(value.as_bytes().to_vec())
}

/// Work that reports when it has begun and waits for permission to continue.
#[derive(Clone, Default)]
struct Gate(Arc<(Notify, Notify)>);

impl Gate {
    /// Begins the work, which makes this value when it may continue.
    async fn begin(&self, once: &Once, value: &str) -> Result<JoinHandle<Outcome>> {
        let (once, value, gate) = (once.clone(), value.as_bytes().to_vec(), self.clone());
        let running = tokio::spawn(async move {
            once.get_or_run(async |_| {
                gate.0.0.notify_one();
                gate.0.1.notified().await;
                Ok(value)
            })
            .await
        });
        timeout(PATIENCE, self.0.0.notified()).await?;
        Ok(running)
    }

    fn open(&self) {
        self.0.1.notify_one();
    }
}

/// Waits until this many clients wait for the name.
async fn listened(site: &impl Site, clients: u64) -> Result<()> {
    until(async || Ok(site.listeners(WAKES).await? == clients)).await
}

/// Many callers of several clients ask at once; one of them does the work.
async fn one_run_for_all(site: &impl Site, clients: usize, callers: usize) -> Result<()> {
    let runs = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let once = Once::new(&site.client(patient()).await?, "name");
        for _ in 0..callers / clients {
            let (once, runs) = (once.clone(), Arc::clone(&runs));
            tasks.spawn(async move {
                once.get_or_run(async |_| {
                    runs.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_millis(50)).await;
                    Ok::<_, Failure>(b"made".to_vec())
                })
                .await
            });
        }
    }
    let mut outcomes = (0, 0);
    while let Some(outcome) = timeout(PATIENCE, tasks.join_next()).await? {
        match outcome?? {
            OnceOutcome::Ran(value) if value == b"made" => outcomes.0 += 1,
            OnceOutcome::Stored(value) if value == b"made" => outcomes.1 += 1,
            other => bail!("{other:?}"),
        }
    }
    ensure!(outcomes == (1, callers - 1), "{outcomes:?}");
    ensure!(runs.load(Ordering::SeqCst) == 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn all_who_ask_at_once_get_the_result_of_one_run() -> Result<()> {
    one_run_for_all(&MemoryStore::new(), 1, 1000).await?;
    one_run_for_all(&MemoryStore::new(), 20, 1000).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_ask_at_once_get_the_result_of_one_run_on_a_server() -> Result<()> {
    let server = Server::start().await?;
    let begun = Instant::now();
    one_run_for_all(&server, 8, 1000).await?;
    // Each caller asks once. Each client's poller looks when messages are known to arrive, when it is notified, and at most
    // once a second if it takes long. The runner stores the result, and each client introduces itself after its first grant.
    let seconds = begun.elapsed().as_secs();
    let scripts = server.commandstats("evalsha").await?;
    ensure!(scripts <= 1000 + 8 * (4 + seconds), "{scripts} scripts");
    println!("{scripts} scripts for 1,000 callers of 8 clients");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_ask_at_once_get_the_result_of_one_run_on_a_cluster() -> Result<()> {
    one_run_for_all(&Cluster::pooled().await?, 4, 100).await
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_of_a_client_cost_the_server_one_request_after_the_wake() -> Result<()> {
    let server = MemoryStore::new();
    let (waits, requests) = faulty(&server, TTL)?;
    let gate = Gate::default();
    let running = gate
        .begin(&Once::new(&client(&server, TTL).await?, "name"), "made")
        .await?;
    let once = Once::new(&waits, "name");
    let first = tokio::spawn({
        let once = once.clone();
        async move { make(&once, "again").await }
    });
    listened(&server, 1).await?;
    let mut waiting = JoinSet::new();
    for _ in 1..1000 {
        let once = once.clone();
        waiting.spawn(async move { make(&once, "again").await });
    }
    sleep(Duration::from_millis(100)).await;
    // The first caller's request, and one more once messages are known to arrive.
    let before = requests.sent(&once::ACQUIRE);
    ensure!(before <= 2, "{before} requests of those who wait");
    gate.open();
    ensure!(running.await?? == ran("made"));
    ensure!(first.await?? == stored("made"));
    while let Some(outcome) = waiting.join_next().await {
        ensure!(outcome?? == stored("made"));
    }
    let after = requests.sent(&once::ACQUIRE) - before;
    ensure!(after == 1, "{after} requests after the wake");
    ensure!(requests.sent(&lock::RELEASE) == 0);
    ensure!(requests.sent(&lock::DROP) == 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stored_result_is_one_request_and_a_run_is_two() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    let once = Once::new(&client, "name");
    ensure!(make(&once, "made").await? == ran("made"));
    ensure!(make(&once, "again").await? == stored("made"));
    // The first request of each loads the script on the server.
    ensure!(requests.sent(&once::ACQUIRE) == 2 + 1);
    ensure!(requests.sent(&once::STORE) == 1 + 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_lets_one_other_do_it_at_once() -> Result<()> {
    let server = MemoryStore::new();
    let once = Once::new(&client(&server, TTL).await?, "name");
    let other = Once::new(&client(&server, TTL).await?, "name");
    let fails = Arc::new(Notify::new());
    let running = tokio::spawn({
        let (once, fails) = (once.clone(), Arc::clone(&fails));
        async move {
            once.get_or_run(async |_| {
                fails.notified().await;
                Err(Failure)
            })
            .await
        }
    });
    let waiting = tokio::spawn(async move { make(&other, "made").await });
    listened(&server, 1).await?;
    let began = Instant::now();
    fails.notify_one();
    let failed = running.await?;
    ensure!(
        matches!(failed, Err(OnceError::Work(Failure))),
        "{failed:?}"
    );
    ensure!(waiting.await?? == ran("made"));
    ensure!(began.elapsed() < Duration::from_secs(1));
    ensure!(make(&once, "again").await? == stored("made"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_that_failed_is_not_tried_again_before_its_time() -> Result<()> {
    let server = MemoryStore::new();
    let once = Once::new(&client(&server, TTL).await?, "name").retry_after(Duration::from_secs(60));
    let failed = once.get_or_run(async |_| Err(Failure)).await;
    ensure!(
        matches!(failed, Err(OnceError::Work(Failure))),
        "{failed:?}"
    );
    ensure!(once.peek().await?.is_some_and(|record| record.is_failure()));
    sleep(Duration::from_secs(20)).await;
    let other = Once::new(&client(&server, TTL).await?, "name");
    match make(&other, "made").await {
        Err(OnceError::Lock(error @ Error::WorkFailed { retry_in, .. })) => {
            ensure!(error.is_transient());
            ensure!((39..=40).contains(&retry_in.as_secs()), "{retry_in:?}");
        }
        outcome => bail!("{outcome:?}"),
    }
    sleep(Duration::from_secs(41)).await;
    ensure!(make(&other, "made").await? == ran("made"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_stands_for_one_request() -> Result<()> {
    let server = MemoryStore::new();
    let name = Once::new(&client(&server, TTL).await?, "name");
    let ten = name.clone().fingerprint("10 EUR");
    let twenty = name.clone().fingerprint("20 EUR");
    ensure!(make(&ten, "paid").await? == ran("paid"));
    ensure!(make(&ten, "paid").await? == stored("paid"));
    ensure!(make(&name, "paid").await? == stored("paid"));
    let other = make(&twenty, "paid").await;
    ensure!(
        matches!(&other, Err(OnceError::Lock(Error::Mismatch { name, .. })) if name == "name"),
        "{other:?}"
    );
    ensure!(ten.forget().await?);
    ensure!(make(&name, "without").await? == ran("without"));
    let other = make(&ten, "paid").await;
    ensure!(
        matches!(other, Err(OnceError::Lock(Error::Mismatch { .. }))),
        "{other:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_waits_with_another_fingerprint_is_told_when_the_work_is_done() -> Result<()> {
    let server = MemoryStore::new();
    let one = client(&server, TTL).await?;
    let gate = Gate::default();
    let running = gate
        .begin(&Once::new(&one, "name").fingerprint("10 EUR"), "paid")
        .await?;
    let other = Once::new(&one, "name").fingerprint("20 EUR");
    let waiting = tokio::spawn(async move { make(&other, "paid").await });
    listened(&server, 1).await?;
    gate.open();
    ensure!(running.await?? == ran("paid"));
    let told = waiting.await?;
    ensure!(
        matches!(told, Err(OnceError::Lock(Error::Mismatch { .. }))),
        "{told:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_large_result_is_handed_back_and_the_next_runs_at_once() -> Result<()> {
    let server = MemoryStore::new();
    let once = Once::new(&client(&server, TTL).await?, "name");
    let largest = vec![b'x'; 65_536];
    let made = once
        .get_or_run(async |_| Ok::<_, Failure>(vec![b'x'; 65_537]))
        .await;
    let Err(OnceError::NotKept {
        value,
        error: error @ Error::Config { .. },
        ..
    }) = made
    else {
        bail!("another outcome");
    };
    ensure!(
        value.len() == 65_537 && error.to_string().contains("65537 bytes"),
        "{error}"
    );
    let made = once
        .get_or_run(async |_| Ok::<_, Failure>(largest.clone()))
        .await?;
    ensure!(made == OnceOutcome::Ran(largest.clone()));
    let kept = once
        .get_or_run(async |_| Ok::<_, Failure>(Vec::new()))
        .await?;
    ensure!(kept == OnceOutcome::Stored(largest));
    Ok(())
}

/// Any bytes are returned unchanged.
async fn any_bytes(site: &impl Site) -> Result<()> {
    let once = Once::new(&site.client(patient()).await?, "name");
    for value in [Vec::new(), vec![0], (0..=255).collect(), "grün\0".into()] {
        let made = once
            .get_or_run(async |_| Ok::<_, Failure>(value.clone()))
            .await?;
        ensure!(made == OnceOutcome::Ran(value.clone()));
        let kept = once.get_or_run(async |_| Err(Failure)).await?;
        ensure!(kept == OnceOutcome::Stored(value.clone()));
        let record = once.peek().await?.context("no record")?;
        ensure!(record.value == Some(value));
        ensure!(once.forget().await? && !once.forget().await?);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_result_is_any_bytes() -> Result<()> {
    any_bytes(&MemoryStore::new()).await
}

#[tokio::test]
async fn a_result_is_any_bytes_on_a_server() -> Result<()> {
    any_bytes(&Server::start().await?).await
}

#[tokio::test(start_paused = true)]
async fn a_result_is_kept_for_so_long_and_the_name_leaves_nothing() -> Result<()> {
    let server = MemoryStore::new();
    let once = Once::new(&client(&server, TTL).await?, "name").keep_for(Duration::from_secs(60));
    ensure!(make(&once, "made").await? == ran("made"));
    let record = once.peek().await?.context("no record")?;
    ensure!(record.left.is_some_and(|left| left.as_secs() >= 59));
    ensure!(record.owner.is_some() && !record.is_failure());
    sleep(Duration::from_secs(59)).await;
    ensure!(make(&once, "again").await? == stored("made"));
    sleep(Duration::from_secs(2)).await;
    ensure!(once.peek().await?.is_none());
    ensure!(make(&once, "again").await? == ran("again"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_when_it_is_forgotten_and_stores_what_it_makes() -> Result<()> {
    let server = MemoryStore::new();
    let once = Once::new(&client(&server, TTL).await?, "name");
    let gate = Gate::default();
    let running = gate.begin(&once, "made").await?;
    ensure!(!once.forget().await?);
    gate.open();
    ensure!(running.await?? == ran("made"));
    ensure!(once.peek().await?.is_some());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_an_end_and_work_of_ones_own_has_none() -> Result<()> {
    let server = MemoryStore::new();
    let once = Once::new(&client(&server, TTL).await?, "name").wait_for(Duration::from_secs(1));
    let gate = Gate::default();
    let running = gate.begin(&once, "made").await?;
    let late = make(&once, "again").await;
    ensure!(
        matches!(late, Err(OnceError::Lock(Error::Timeout { .. }))),
        "{late:?}"
    );
    sleep(3 * TTL).await;
    gate.open();
    ensure!(running.await?? == ran("made"));
    let at_once = once.wait_for(Duration::ZERO);
    ensure!(make(&at_once, "again").await? == stored("made"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_that_goes_on_is_seen_from_outside() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let gate = Gate::default();
    let running = gate.begin(&Once::new(&client, "name"), "made").await?;
    let seen = client.inspect("name").await?;
    ensure!(
        seen.kind.as_deref() == Some("once") && seen.holders.len() == 1,
        "{seen:?}"
    );
    ensure!(seen.holders[0].state == HolderState::Held);
    let mut names = client.names("*");
    let mut found = Vec::new();
    while let Some(page) = names.next_page().await? {
        found.extend(page);
    }
    ensure!(found.contains(&"name".to_owned()), "{found:?}");
    gate.open();
    ensure!(running.await?? == ran("made"));
    ensure!(client.inspect("name").await?.kind.is_none());
    Ok(())
}

/// Waiters for a lock of another kind use the same channel.
#[tokio::test(start_paused = true)]
async fn a_result_ends_no_wait_for_a_lock_of_another_kind() -> Result<()> {
    let server = MemoryStore::new();
    // Where mutexes are polled too, after the same messages.
    let client = server.client(polling().ttl(TTL)).await?;
    let (mutex, once) = (Mutex::new(&client, "name"), Once::new(&client, "name"));
    ensure!(make(&once, "made").await? == ran("made"));
    let held = mutex.acquire().await?;
    let first = tokio::spawn(mutex.acquire().into_future());
    timeout(PATIENCE, async {
        while server.listeners("lockkeeper.wake:{name}").await? != 1 {
            sleep(Duration::from_millis(1)).await;
        }
        anyhow::Ok(())
    })
    .await??;
    let asks = tokio::spawn(async move { make(&once, "again").await });
    tokio::task::yield_now().await;
    let last = tokio::spawn(mutex.acquire().into_future());
    tokio::task::yield_now().await;
    held.release().await?;
    timeout(PATIENCE, first).await???.release().await?;
    ensure!(timeout(PATIENCE, asks).await??? == stored("made"));
    timeout(PATIENCE, last).await???.release().await?;
    Ok(())
}

#[tokio::test]
async fn what_cannot_work_is_refused_before_anything_is_sent() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    let name = Once::new(&client, "name");
    for bad in [
        Once::new(&client, ""),
        name.clone().keep_for(Duration::ZERO),
        name.clone().keep_for(Duration::from_secs(400 * 86_400)),
        name.clone().retry_after(Duration::from_micros(1)),
        name.clone().ttl(Duration::ZERO),
    ] {
        let refused = make(&bad, "made").await;
        ensure!(
            matches!(refused, Err(OnceError::Lock(Error::Config { .. }))),
            "{refused:?}"
        );
    }
    ensure!(requests.sent(&once::ACQUIRE) == 0);
    Ok(())
}
