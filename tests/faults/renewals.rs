//! Many leases of one client: renewed in batches, with an outcome for each.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Client, FairLock, LeaseState, LossReason, Mutex};
use lockkeeper_core::store::Store;
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::{Fate, FaultyStore};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use lockkeeper_tests::{faulty, polling};
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(3);

const CANNOT_SAVE: &str =
    "MISCONF Redis is configured to save RDB snapshots, but it is unable to persist to disk";

/// On a server, all leases but one that was overwritten are alive after three ttls.
async fn leases_outlive_three_ttls(server: &Server, leases: u64, ttl: Duration) -> Result<()> {
    // What an attempt with shorter leases has left.
    server.command(&["FLUSHALL"]).await?;
    let client = server.client(Client::builder().ttl(ttl)).await?;
    let mut guards = Vec::new();
    for number in 0..leases {
        let lock = Mutex::new(&client, &format!("name {number}"));
        guards.push(lock.acquire().wait_for(PATIENCE).await?);
    }
    server.command(&["DEL", "lockkeeper:name 77"]).await?;
    server
        .command(&["HSET", "lockkeeper:name 77", "somebody", "else"])
        .await?;
    server.command(&["CONFIG", "RESETSTAT"]).await?;
    tokio::time::sleep(ttl * 3).await;

    let lost: Vec<_> = guards
        .iter()
        .filter(|guard| guard.ensure_held().is_err())
        .collect();
    ensure!(lost.len() == 1 && lost[0].name() == "name 77", "{lost:?}");
    ensure!(lost[0].state() == LeaseState::Lost(LossReason::Gone));
    // Three times is the least that keeps a lease alive for this long. Nine times are usual, a hundred at a time, which the next
    // test counts; on a busy machine fewer leases are due at the same time.
    let scripts = server.commandstats("evalsha").await?;
    ensure!(
        (3 * leases / 100..9 * leases / 4).contains(&scripts),
        "{scripts} scripts for some {} renewals",
        leases * 9
    );
    Ok(())
}

#[tokio::test]
async fn a_hundred_leases_of_one_client_outlive_three_ttls_on_a_server() -> Result<()> {
    let server = Server::start().await?;
    beyond_stalls(&server, TTL, async |ttl| {
        leases_outlive_three_ttls(&server, 100, ttl).await
    })
    .await
}

#[tokio::test]
#[ignore = "long: ten thousand leases"]
async fn ten_thousand_leases_of_one_client_outlive_three_ttls_on_a_server() -> Result<()> {
    let server = Server::start().await?;
    beyond_stalls(&server, TTL, async |ttl| {
        leases_outlive_three_ttls(&server, 10_000, ttl).await
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_thousand_leases_are_renewed_nine_times_in_three_ttls_a_hundred_at_a_time() -> Result<()>
{
    const LEASES: usize = 1_000;
    let (client, store) = faulty(&MemoryStore::new(), TTL)?;
    let mut guards = Vec::with_capacity(LEASES);
    for number in 0..LEASES {
        let lock = Mutex::new(&client, &format!("name {number}"));
        guards.push(lock.acquire().await?);
    }
    tokio::time::sleep(TTL * 3).await;
    ensure!(guards.iter().all(|guard| guard.state() == LeaseState::Held));
    // Nine periods of a third of a ttl, each in batches of a hundred; a tenth more because some phases start anew.
    let scripts = store.sent(&lock::RENEW);
    ensure!((90..=140).contains(&scripts), "{scripts} scripts");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_refused_as_a_whole_is_halved_until_every_lease_is_renewed() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let mut guards = Vec::new();
    for number in 0..8 {
        guards.push(
            Mutex::new(&client, &format!("name {number}"))
                .acquire()
                .await?,
        );
    }
    // A first round of renewals has loaded the script. Then the whole batch and its first half are refused.
    tokio::time::sleep(TTL / 2).await;
    let before = store.sent(&lock::RENEW);
    store.plan(&lock::RENEW, Fate::Refuse("TRYAGAIN several keys"));
    store.plan(&lock::RENEW, Fate::Refuse("TRYAGAIN several keys"));
    tokio::time::sleep(TTL / 3).await;
    let sent = store.sent(&lock::RENEW) - before;
    ensure!(
        sent == 5,
        "one of 8, one of 4, two of 2, one of 4: not {sent}"
    );
    ensure!(guards.iter().all(|guard| guard.state() == LeaseState::Held));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_answer_makes_its_leases_uncertain_and_loses_none() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let mut guards = Vec::new();
    for number in 0..150 {
        guards.push(
            Mutex::new(&client, &format!("name {number}"))
                .acquire()
                .await?,
        );
    }
    // A first round has loaded the script. In the next round the first batch gets no reply, and neither does its second
    // attempt, which is sent at once.
    tokio::time::sleep(TTL / 2).await;
    for fate in [Fate::LoseReply, Fate::Pass, Fate::LoseReply] {
        store.plan(&lock::RENEW, fate);
    }
    let count = |state| guards.iter().filter(|guard| guard.state() == state).count();
    // The batch is sent within a period and waited for; the other 50 leases are not affected.
    let begun = Instant::now();
    while count(LeaseState::Uncertain) == 0 {
        ensure!(begun.elapsed() < TTL, "never uncertain");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    ensure!(begun.elapsed() >= TTL / 6, "{:?}", begun.elapsed());
    ensure!(
        (count(LeaseState::Uncertain), count(LeaseState::Held)) == (100, 50),
        "{} uncertain, {} held",
        count(LeaseState::Uncertain),
        count(LeaseState::Held)
    );
    ensure!(guards.iter().all(|guard| guard.ensure_held().is_ok()));
    tokio::time::sleep(TTL * 2).await;
    ensure!(guards.iter().all(|guard| guard.state() == LeaseState::Held));
    drop(guards);
    ensure!(client.close().await.unconfirmed == 0);
    Ok(())
}

/// In a cluster a group is a slot, and one of its servers may be silent.
#[tokio::test(start_paused = true)]
async fn renewals_of_one_group_fail_alone_and_no_batch_mixes_groups() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    store.split_groups("far");
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for number in 0..30 {
        let near_name = format!("near {number}");
        near.push(Mutex::new(&client, &near_name).acquire().await?);
        let far_name = format!("far {number}");
        far.push(Mutex::new(&client, &far_name).acquire().await?);
    }
    tokio::time::sleep(TTL).await;
    ensure!(
        near.iter()
            .chain(&far)
            .all(|guard| guard.state() == LeaseState::Held)
    );
    store.silence("far");
    for _ in 0..30 {
        tokio::time::sleep(TTL / 10).await;
        ensure!(near.iter().all(|guard| guard.state() == LeaseState::Held));
    }
    let expired = LeaseState::Lost(LossReason::Expired);
    ensure!(far.iter().all(|guard| guard.state() == expired));

    let batches = store.keys_sent(&lock::RENEW);
    ensure!(batches.iter().any(|keys| keys.len() >= 30), "{batches:?}");
    for keys in batches {
        let group = |key: &String| store.group(key);
        ensure!(
            keys.windows(2).all(|two| group(&two[0]) == group(&two[1])),
            "{keys:?}"
        );
    }
    Ok(())
}

/// It has more leases than may be renewed at once.
#[tokio::test(start_paused = true)]
async fn a_silent_server_with_thousands_of_leases_delays_no_renewal_on_another() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    store.split_groups("far");
    let near = Mutex::new(&client, "near").acquire().await?;
    let mut far = Vec::new();
    for number in 0..4_000 {
        let name = format!("far {number}");
        far.push(Mutex::new(&client, &name).acquire().await?);
    }
    store.silence("far");
    for _ in 0..60 {
        tokio::time::sleep(TTL / 20).await;
        let left = near.remaining();
        ensure!(left > TTL * 6 / 10, "renewed late: {left:?} left");
    }
    drop(far);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_save_is_asked_again_by_whole_batches() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let mut guards = Vec::new();
    for number in 0..100 {
        let name = format!("name {number}");
        guards.push(Mutex::new(&client, &name).acquire().await?);
    }
    tokio::time::sleep(TTL / 2).await;
    let before = store.sent(&lock::RENEW);
    store.plan(&lock::RENEW, Fate::Refuse(CANNOT_SAVE));
    store.plan(&lock::RENEW, Fate::Refuse(CANNOT_SAVE));
    tokio::time::sleep(TTL).await;
    let sent = store.sent(&lock::RENEW) - before;
    ensure!(sent <= 6, "{sent} requests for a hundred leases");
    ensure!(guards.iter().all(|guard| guard.ensure_held().is_ok()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_and_a_wait_outlast_a_server_that_cannot_save_for_a_while() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = Mutex::new(&client, "name");
    for refusal in [
        CANNOT_SAVE,
        "OOM command not allowed when used memory > 'maxmemory'.",
    ] {
        store.plan(&lock::ACQUIRE, Fate::Refuse(refusal));
        let guard = lock.acquire().wait_for(TTL).await?;
        store.plan(&lock::DROP, Fate::Refuse(refusal));
        guard.release().await?;
        ensure!(server.command(&["EXISTS", "lockkeeper:name"]).await? == "0");
    }
    Ok(())
}

/// A batch is built when it is due, and may be sent later: here 32 other batches to the same server are in flight.
#[tokio::test(start_paused = true)]
async fn a_claim_that_ends_before_its_batch_is_sent_makes_no_neighbour_skip_its_heartbeat()
-> Result<()> {
    const HEARTBEAT: Duration = Duration::from_secs(2);
    let millis = Duration::from_millis;
    let server = MemoryStore::new();
    // Mutexes without a queue, whose timeouts depend on their leases alone.
    let settings = polling().ttl(HEARTBEAT * 3).waiter_ttl(HEARTBEAT * 3);
    let (client, store) = FaultyStore::client(&server, settings)?;
    let other = server.client(polling().ttl(TTL)).await?;
    // A long lease, so that the first waiter in the queue has no other reason to ask.
    let held = FairLock::new(&other, "queue").acquire().ttl(TTL * 10);
    let _held = held.await?;
    // Loads the renewal script on the server.
    let taught = Mutex::new(&other, "taught").acquire().await?;
    tokio::time::sleep(TTL / 2).await;
    taught.release().await?;
    // Leases with different timeouts, each a batch of its own, with slow renewals.
    let mut guards = Vec::new();
    for number in 0..32 {
        let lock = Mutex::new(&client, &format!("name {number}"));
        let ttl = HEARTBEAT * 3 + millis(60) * number;
        guards.push(lock.acquire().ttl(ttl).await?);
    }
    store.slow_down(&lock::RENEW, millis(950));
    tokio::time::sleep(millis(800)).await;
    let lock = FairLock::new(&client, "queue");
    let mut waiters = Vec::new();
    for number in 1..=3 {
        waiters.push(tokio::spawn(lock.acquire().into_future()));
        while lock.queue_len().await? != number {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::sleep(HEARTBEAT - millis(20)).await;
    let before = store.sent(&lock::HEARTBEAT);
    tokio::time::sleep(millis(60)).await;
    ensure!(
        store.sent(&lock::HEARTBEAT) == before,
        "nothing holds the batch back"
    );
    waiters[0].abort();
    tokio::time::sleep(millis(500)).await;
    ensure!(
        store.sent(&lock::HEARTBEAT) > before,
        "no heartbeat was sent"
    );
    Ok(())
}
