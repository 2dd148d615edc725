//! The latch: each id counts once, all waiters pass together, and no waiter waits for a latch that will never open.

mod faults;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Error, Latch, Mutex, Once, OnceError};
use lockkeeper_lua::{latch, lock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::{client, faulty, patient, until};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

/// The ttl of the clients' leases.
const LEASE: Duration = Duration::from_secs(6);
/// The ttl of the latches.
const TTL: Duration = Duration::from_secs(60);
const MAIN: &str = "lockkeeper:name";
const COUNTED: &str = "lockkeeper.counted:{lockkeeper:name}";
const WAKES: &str = "lockkeeper.wake:{lockkeeper:name}";

/// The latch of these tests, with a client of its own.
async fn latch(site: &impl Site) -> Result<Latch> {
    Ok(Latch::new(&site.client(patient()).await?, "name").ttl(TTL))
}

/// Starts to wait; returns after the task was polled.
async fn waiting(latch: &Latch) -> JoinHandle<Result<(), Error>> {
    let latch = latch.clone();
    let waiting = tokio::spawn(async move { latch.wait().await });
    tokio::task::yield_now().await;
    waiting
}

/// Waits until this many clients are subscribed for the latch.
async fn listened(site: &impl Site, clients: u64) -> Result<()> {
    until(async || Ok(site.listeners(WAKES).await? == clients)).await
}

fn is_not_armed(outcome: &Result<impl Sized, Error>, has_ended: bool) -> bool {
    matches!(outcome, Err(Error::NotArmed { name, ended, .. }) if name == "name" && *ended == has_ended)
}

/// Waiters of several clients. Two clients send every count, each at any time.
async fn all_pass_together(site: &impl Site, clients: usize, waiters: usize) -> Result<()> {
    let mut tasks = JoinSet::new();
    let first = latch(site).await?;
    ensure!(first.arm(20).await?);
    for _ in 0..clients {
        let latch = latch(site).await?;
        for _ in 0..waiters / clients {
            let latch = latch.clone();
            tasks.spawn(async move { latch.wait().await });
        }
    }
    listened(site, u64::try_from(clients)?).await?;
    let mut counting = JoinSet::new();
    for client in 0..2 {
        let latch = latch(site).await?;
        for part in 0..19 {
            let latch = latch.clone();
            counting.spawn(async move {
                sleep(Duration::from_millis((7 * part + 11 * client) % 20)).await;
                latch.count_down(&format!("part:{part}")).await
            });
        }
    }
    while let Some(left) = counting.join_next().await {
        ensure!((1..20).contains(&left??));
    }
    ensure!(first.remaining().await? == 1);
    ensure!(tasks.try_join_next().is_none(), "somebody passed early");
    ensure!(first.count_down("part:19").await? == 0);
    while let Some(passed) = timeout(PATIENCE, tasks.join_next()).await? {
        passed??;
    }
    first.wait().await?;
    ensure!(first.remaining().await? == 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_pass_when_the_last_has_counted() -> Result<()> {
    all_pass_together(&MemoryStore::new(), 1, 1000).await?;
    all_pass_together(&MemoryStore::new(), 20, 1000).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_wait_pass_when_the_last_has_counted_on_a_server() -> Result<()> {
    // Ten clients: Valkey 9.1 miscounts eight subscribers as hundreds of millions.
    all_pass_together(&Server::start().await?, 10, 1000).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_wait_pass_when_the_last_has_counted_on_a_cluster() -> Result<()> {
    let cluster = Cluster::pooled().await?;
    let mut waits = JoinSet::new();
    // On several nodes.
    for number in 0..6 {
        let latch = Latch::new(&cluster.client(patient()).await?, &format!("name:{number}"));
        ensure!(latch.arm(2).await?);
        for _ in 0..10 {
            let latch = latch.clone();
            waits.spawn(async move { latch.wait().await });
        }
        let other = Latch::new(&cluster.client(patient()).await?, &format!("name:{number}"));
        ensure!(other.count_down("a").await? == 1);
        ensure!(latch.count_down("a").await? == 1);
        ensure!(other.count_down("b").await? == 0);
    }
    while let Some(passed) = timeout(PATIENCE, waits.join_next()).await? {
        passed??;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_of_a_client_cost_the_server_one_request_after_the_wake() -> Result<()> {
    let server = MemoryStore::new();
    let (waits, requests) = faulty(&server, LEASE)?;
    let other = latch(&server).await?;
    other.arm(1).await?;
    let latch = Latch::new(&waits, "name");
    let mut waiters = JoinSet::new();
    for number in 0..1000 {
        let latch = latch.clone();
        waiters.spawn(async move { latch.wait().await });
        if number == 0 {
            listened(&server, 1).await?;
        }
    }
    sleep(Duration::from_millis(100)).await;
    // The first waiter's look by SHA-1 and by text, and one more once messages are known to arrive.
    let before = requests.sent(&latch::LOOK);
    ensure!(before <= 3, "{before} requests of those who wait");
    other.count_down("a").await?;
    while let Some(passed) = waiters.join_next().await {
        passed??;
    }
    let after = requests.sent(&latch::LOOK) - before;
    ensure!(after == 1, "{after} requests after the wake");
    ensure!(requests.sent(&lock::RELEASE) == 0 && requests.sent(&lock::DROP) == 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_comes_before_it_is_armed_is_told_at_once() -> Result<()> {
    let latch = latch(&MemoryStore::new()).await?;
    let began = Instant::now();
    for latch in [latch.clone(), latch.clone().wait_for(PATIENCE)] {
        let early = latch.wait().await;
        ensure!(is_not_armed(&early, false), "{early:?}");
    }
    ensure!(is_not_armed(&latch.count_down("a").await, false));
    ensure!(is_not_armed(&latch.remaining().await, false));
    ensure!(began.elapsed() < Duration::from_millis(10));
    // The count that came too early did not count.
    ensure!(latch.arm(1).await? && latch.remaining().await? == 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_comes_late_passes_until_the_ttl_is_over() -> Result<()> {
    let latch = latch(&MemoryStore::new()).await?;
    latch.arm(1).await?;
    latch.count_down("a").await?;
    sleep(TTL - Duration::from_secs(1)).await;
    latch.wait().await?;
    sleep(Duration::from_secs(2)).await;
    let late = latch.wait().await;
    ensure!(is_not_armed(&late, false), "{late:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_latch_that_nobody_counts_down_ends_and_all_who_wait_are_told() -> Result<()> {
    let server = MemoryStore::new();
    let latch = latch(&server).await?;
    latch.arm(2).await?;
    let began = Instant::now();
    let mut waiters = JoinSet::new();
    for _ in 0..3 {
        let (client, requests) = faulty(&server, LEASE)?;
        for _ in 0..100 {
            let latch = Latch::new(&client, "name");
            let requests = requests.clone();
            waiters.spawn(async move { (latch.wait().await, requests.sent(&latch::LOOK)) });
        }
    }
    sleep(TTL / 2).await;
    latch.count_down("a").await?;
    while let Some(ended) = waiters.join_next().await {
        let (ended, looks) = ended?;
        ensure!(is_not_armed(&ended, true), "{ended:?}");
        // One look every 5 s per client, not one per waiter.
        ensure!(looks < 25, "{looks} looks of a client");
    }
    let ended = began.elapsed();
    let ends = TTL / 2 + TTL;
    ensure!(
        ended >= ends && ended < ends + Duration::from_millis(100),
        "{ended:?}"
    );
    ensure!(is_not_armed(&latch.count_down("b").await, true));
    // Armed anew, it counts from the beginning.
    ensure!(latch.arm(2).await?);
    ensure!(latch.count_down("a").await? == 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn waiting_keeps_no_latch_alive_and_a_name_leaves_nothing() -> Result<()> {
    let server = MemoryStore::new();
    let latch = latch(&server).await?;
    latch.arm(1).await?;
    let began = Instant::now();
    let waits = waiting(&latch).await;
    while began.elapsed() < TTL - Duration::from_secs(1) {
        sleep(Duration::from_secs(1)).await;
        ensure!(latch.remaining().await? == 1);
        ensure!(!latch.arm(1).await?);
    }
    ensure!(is_not_armed(&waits.await?, true));
    ensure!(began.elapsed() < TTL + Duration::from_millis(100));
    sleep(TTL + Duration::from_secs(10)).await;
    let mut left = server.keys();
    // The label of the client that waited.
    left.retain(|key| !key.starts_with("lockkeeper.client:"));
    ensure!(left.is_empty(), "{left:?}");
    sleep(Duration::from_secs(600)).await;
    ensure!(server.keys().is_empty(), "{:?}", server.keys());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn arming_again_changes_nothing_and_another_number_is_refused() -> Result<()> {
    let server = MemoryStore::new();
    let (one, other) = (latch(&server).await?, latch(&server).await?);
    ensure!(one.arm(2).await?);
    ensure!(one.count_down("a").await? == 1);
    ensure!(!other.arm(2).await?);
    ensure!(!one.arm(2).await?, "another call");
    let refused = other.arm(3).await;
    ensure!(
        matches!(&refused, Err(Error::Config { message, .. }) if message.contains("2 counts")),
        "{refused:?}"
    );
    ensure!(other.count_down("b").await? == 0);
    ensure!(!other.arm(2).await?);
    ensure!(matches!(other.arm(1).await, Err(Error::Config { .. })));
    one.wait().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_latch_without_counts_and_one_with_the_most_open() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, LEASE).await?;
    let none = Latch::new(&client, "none");
    none.arm(0).await?;
    none.wait().await?;
    let most = Latch::new(&client, "most");
    most.arm(10_000).await?;
    for part in 1..=10_000 {
        ensure!(most.count_down(&format!("{part}")).await? == 10_000 - part);
    }
    most.wait().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_an_end_if_one_was_set() -> Result<()> {
    let latch = latch(&MemoryStore::new()).await?;
    latch.arm(1).await?;
    let began = Instant::now();
    for longest in [Duration::ZERO, Duration::from_secs(3)] {
        let late = latch.clone().wait_for(longest).wait().await;
        ensure!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
    }
    ensure!(began.elapsed() < Duration::from_millis(3100));
    latch.count_down("a").await?;
    latch.wait_for(Duration::ZERO).wait().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_latch_is_seen_from_outside_and_can_be_forced_away() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, LEASE).await?;
    let latch = Latch::new(&client, "name");
    latch.arm(3).await?;
    latch.count_down("a").await?;
    let seen = client.inspect("name").await?;
    ensure!(seen.kind.as_deref() == Some("latch") && seen.token.is_none());
    let [armed] = &seen.holders[..] else {
        anyhow::bail!("{seen:?}");
    };
    ensure!(
        (armed.permits, seen.limit) == (Some(2), Some(3)),
        "{seen:?}"
    );
    let mut names = client.names("*");
    let mut found = Vec::new();
    while let Some(page) = names.next_page().await? {
        found.extend(page);
    }
    ensure!(found == ["name"], "{found:?}");
    let waits = waiting(&latch).await;
    listened(&server, 1).await?;
    ensure!(client.force_release("name", &armed.claim).await?);
    ensure!(is_not_armed(&timeout(PATIENCE, waits).await??, true));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn other_kinds_keep_out_and_are_kept_out() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, LEASE).await?;
    let (latch, mutex) = (Latch::new(&client, "name"), Mutex::new(&client, "name"));
    let held = mutex.acquire().await?;
    let outcomes = [
        latch.arm(1).await.map(drop),
        latch.count_down("a").await.map(drop),
        latch.remaining().await.map(drop),
        latch.wait().await,
    ];
    for outcome in outcomes {
        ensure!(
            matches!(&outcome, Err(Error::WrongKind { kind: "latch", .. })),
            "{outcome:?}"
        );
    }
    held.release().await?;
    latch.arm(1).await?;
    let refused = mutex.acquire().await;
    ensure!(matches!(refused, Err(Error::WrongKind { .. })));
    latch.count_down("a").await?;
    let refused = mutex.try_acquire().await;
    ensure!(matches!(refused, Err(Error::WrongKind { .. })));
    Ok(())
}

/// Waiters for work that is done once use the same channel, and must not take an open latch for a result.
#[tokio::test(start_paused = true)]
async fn an_open_latch_is_no_result_of_work() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, LEASE).await?;
    let (latch, once) = (Latch::new(&client, "name"), Once::new(&client, "name"));
    latch.arm(1).await?;
    let waits = waiting(&latch).await;
    listened(&server, 1).await?;
    let asks = tokio::spawn(async move {
        once.get_or_run(async |_| Ok::<_, std::convert::Infallible>(Vec::new()))
            .await
    });
    tokio::task::yield_now().await;
    latch.count_down("a").await?;
    timeout(PATIENCE, waits).await???;
    let refused = timeout(PATIENCE, asks).await??;
    ensure!(
        matches!(refused, Err(OnceError::Lock(Error::WrongKind { .. }))),
        "{refused:?}"
    );
    Ok(())
}

/// Ids are arbitrary texts, and each is distinct.
async fn any_id_counts(site: &impl Site) -> Result<()> {
    let latch = latch(site).await?;
    let long = "ü".repeat(128);
    let ids = [
        "\0",
        "\n",
        "\r\n",
        " ",
        "a b",
        "\u{1b}[2J",
        "{name}",
        "0",
        "-inf",
        "NaN",
        "(",
        &long,
    ];
    let n = u32::try_from(ids.len())?;
    latch.arm(n).await?;
    for (counted, id) in (1..).zip(ids) {
        for _ in 0..2 {
            let left = latch.count_down(id).await?;
            ensure!(left == n - counted, "{id:?}: {left}");
        }
    }
    latch.wait().await?;
    Ok(())
}

#[tokio::test]
async fn an_id_is_any_text() -> Result<()> {
    any_id_counts(&MemoryStore::new()).await
}

#[tokio::test]
async fn an_id_is_any_text_on_a_server() -> Result<()> {
    any_id_counts(&Server::start().await?).await
}

#[tokio::test]
async fn what_cannot_work_is_refused_before_anything_is_sent() -> Result<()> {
    let (client, requests) = faulty(&MemoryStore::new(), LEASE)?;
    let latch = Latch::new(&client, "name");
    let long = "x".repeat(257);
    let outcomes = [
        latch.arm(10_001).await.map(drop),
        latch.clone().ttl(Duration::ZERO).arm(1).await.map(drop),
        latch
            .clone()
            .ttl(Duration::from_secs(400 * 86_400))
            .arm(1)
            .await
            .map(drop),
        Latch::new(&client, "").arm(1).await.map(drop),
        Latch::new(&client, "").wait().await,
        latch.count_down("").await.map(drop),
        latch.count_down(&long).await.map(drop),
    ];
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let error = outcome.err().with_context(|| number.to_string())?;
        ensure!(matches!(error, Error::Config { .. }), "{number}: {error:?}");
    }
    for script in [&latch::ARM, &latch::COUNT_DOWN, &latch::LOOK] {
        ensure!(requests.sent(script) == 0);
    }
    Ok(())
}
