//! Sequences that once broke something. Each test is named after what must hold.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, LeaseState, LossReason, Mutex, ReentrantLock, Released};
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_tests::{faulty, faulty_polling};

const TTL: Duration = Duration::from_secs(30);

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

#[tokio::test(start_paused = true)]
async fn a_mutex_with_an_acquire_in_doubt_outlives_the_memory_of_its_fence() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    store.plan(&lock::ACQUIRE, Fate::LoseReply);
    let guard = Mutex::new(&client, "name").acquire().await?;
    for minute in 0..15 {
        ensure!(
            guard.state() == LeaseState::Held,
            "{:?} after {minute} minutes on a healthy server",
            guard.state()
        );
        tokio::time::sleep(secs(60)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_verify_has_renewed_goes_on_being_renewed() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    store.plan(&lock::ACQUIRE, Fate::LoseReply);
    let guard = Mutex::new(&client, "warm").acquire().await?;
    drop(guard);
    tokio::time::sleep(secs(1)).await;
    store.plan(&lock::ACQUIRE, Fate::LoseReply);
    let guard = Mutex::new(&client, "name").acquire().await?;
    // Four renewals without an answer: sent 10, 15, 20 and 25 s after the grant.
    for _ in 0..4 {
        store.plan(&lock::ACQUIRE, Fate::LoseRequest);
    }
    tokio::time::sleep(Duration::from_millis(27_500)).await;
    ensure!(
        guard.state() == LeaseState::Uncertain,
        "{:?}",
        guard.state()
    );
    guard.verify().await?;
    ensure!(guard.state() == LeaseState::Held, "{:?}", guard.state());
    ensure!(guard.remaining() > secs(29));
    tokio::time::sleep(secs(60)).await;
    ensure!(
        guard.state() == LeaseState::Held,
        "{:?}: nobody renews it any more",
        guard.state()
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn verify_asks_even_while_a_renewal_is_on_its_way() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    store.plan(&lock::ACQUIRE, Fate::LoseReply);
    let guard = Mutex::new(&client, "name").acquire().await?;
    let sent = store.sent(&lock::ACQUIRE);
    store.plan(&lock::ACQUIRE, Fate::LoseRequest);
    store.wait_sent(&lock::ACQUIRE, sent + 1).await;
    server.execute(&["DEL", "lockkeeper:name"])?;
    let verified = guard.verify().await;
    ensure!(
        verified.is_err(),
        "verify says Ok of a claim that is not there"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_has_been_granted_lets_its_own_waiters_in() -> Result<()> {
    let server = MemoryStore::new();
    let client = Client::builder()
        .ttl(TTL)
        .build(Arc::new(server.sibling()))?;
    let lock = ReentrantLock::new(&client, "name");
    let (first, stranger, owner) = (client.new_owner(), client.new_owner(), client.new_owner());
    let holding = lock.acquire().owner(&first).await?;
    let wait = |owner| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().owner(&owner).await })
    };
    let one = wait(owner);
    tokio::time::sleep(secs(1)).await;
    let other = wait(stranger);
    tokio::time::sleep(secs(1)).await;
    let two = wait(owner);
    tokio::time::sleep(secs(1)).await;
    holding.release().await?;
    let one = one.await??;
    // "An owner that holds already gets in at once."
    let two = tokio::time::timeout(secs(600), two).await;
    ensure!(two.is_ok(), "its owner holds, and it has waited 10 minutes");
    drop((one, other));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_impatience_of_a_short_lease_is_not_that_of_a_long_one() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty_polling(&server, TTL)?;
    let (holder, _) = faulty_polling(&server, TTL)?;
    let lock = Mutex::new(&client, "name");
    let held = Mutex::new(&holder, "name").acquire().await?;
    let short = lock.clone();
    let short = tokio::spawn(async move { short.acquire().ttl(Duration::from_millis(300)).await });
    tokio::time::sleep(secs(1)).await;
    let long = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(secs(1)).await;
    // A hiccup of about half a second.
    for _ in 0..10 {
        store.plan(&lock::ACQUIRE, Fate::LoseRequest);
    }
    held.release().await?;
    let short = short.await?;
    ensure!(short.is_err());
    let long = tokio::time::timeout(secs(60), long).await??;
    ensure!(long.is_ok(), "gave up after half a second of 30: {long:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_long_lease_does_not_depend_on_the_timeout_of_a_short_one() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, secs(3))?;
    store.slow_down(&lock::RENEW, Duration::from_millis(80));
    let long = Mutex::new(&client, "long").acquire().await?;
    // Like a worker: short locks, one after the other, each held for a little longer than a renewal takes.
    let short = Mutex::new(&client, "short");
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < secs(30) {
        let Ok(guard) = short.acquire().ttl(Duration::from_millis(300)).await else {
            continue;
        };
        tokio::time::sleep(Duration::from_millis(120)).await;
        guard.release().await.ok();
        ensure!(
            long.ensure_held().is_ok(),
            "{:?} after {:?}: a server that answers in 80 ms, a lease of 3 s",
            long.state(),
            begun.elapsed()
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_refused_batch_is_halved_also_if_one_of_its_leases_has_ended() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let mut guards = Vec::new();
    // 33 batches: one more than are sent at once.
    for number in 0..3_300 {
        guards.push(
            Mutex::new(&client, &format!("name {number}"))
                .acquire()
                .await?,
        );
    }
    for _ in 0..32 {
        store.plan(&lock::RENEW, Fate::LoseReply);
    }
    // The batch that is sent next is refused because of one key.
    store.plan(&lock::RENEW, Fate::Refuse("NOPERM key"));
    store.wait_sent(&lock::RENEW, 32).await;
    let waiting: Vec<usize> = (0..3_300)
        .filter(|&n| guards[n].state() == LeaseState::Held)
        .collect();
    ensure!(waiting.len() == 3_300);
    // Release one lease of the last batch while that batch waits.
    let gone = guards.swap_remove(3_299);
    drop(gone);
    store.wait_sent(&lock::RENEW, 33).await;
    let before = store.sent(&lock::RENEW);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let states: Vec<_> = guards[3_200..].iter().map(|guard| guard.state()).collect();
    let uncertain = states
        .iter()
        .filter(|state| **state == LeaseState::Uncertain)
        .count();
    ensure!(
        uncertain <= 1,
        "{uncertain} of the batch not renewed; {before} sent"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_first_answer_was_lost_does_not_call_a_held_lock_free() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = ReentrantLock::new(&client, "name");
    let owner = client.new_owner();
    let outer = lock.acquire().owner(&owner).await?;
    let warm = lock.acquire().owner(&owner).await?;
    ensure!(warm.release().await? == Released::StillHeld(1));
    let inner = lock.acquire().owner(&owner).await?;
    store.plan(&lock::DROP, Fate::LoseReply);
    let released = inner.release().await?;
    ensure!(
        released != Released::Free,
        "the outer hold is there: {:?}",
        outer.state()
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_last_dead_claim_is_told() -> Result<()> {
    let server = MemoryStore::new();
    let client = Client::builder()
        .ttl(TTL)
        .build(Arc::new(server.sibling()))?;
    let lock = ReentrantLock::new(&client, "name");
    let (owner, stranger) = (client.new_owner(), client.new_owner());
    let long = lock
        .acquire()
        .owner(&owner)
        .ttl(secs(600))
        .no_renewal()
        .await?;
    let short = lock
        .acquire()
        .owner(&owner)
        .ttl(secs(8))
        .no_renewal()
        .await?;
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move {
            lock.acquire()
                .owner(&stranger)
                .await
                .map(|guard| (tokio::time::Instant::now(), guard))
        }
    });
    tokio::time::sleep(secs(6)).await;
    // A poll at 5 s has said that the name is held for 600 s.
    ensure!(long.release().await? == Released::StillHeld(1));
    let lost = short.lost().await.reason;
    ensure!(lost == LossReason::Expired);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let freed = tokio::time::Instant::now();
    drop(short);
    let (granted, _guard) = waiting.await??;
    ensure!(granted - freed < secs(1), "{:?} late", granted - freed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_foreign_hash_is_left_as_it_is() -> Result<()> {
    let server = MemoryStore::new();
    let client = Client::builder()
        .ttl(TTL)
        .build(Arc::new(server.sibling()))?;
    server.execute(&["HSET", "lockkeeper:name", "", "precious", "a", "b"])?;
    let lock = ReentrantLock::new(&client, "name");
    let result = lock.try_acquire().owner(&client.new_owner()).await;
    ensure!(result.is_err());
    let left = server.execute(&["HGET", "lockkeeper:name", ""])?;
    ensure!(left.as_str() == Some("precious"), "{left:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_is_not_brought_back_by_its_own_renewal() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = Mutex::new(&client, "name");
    store.plan(&lock::ACQUIRE, Fate::LoseReply);
    let guard = lock.acquire().await?;
    server.execute(&["DEL", "lockkeeper:name"])?;
    ensure!(guard.lost().await.reason == LossReason::Gone);
    tokio::time::sleep(secs(1)).await;
    let keys = server.keys();
    ensure!(
        !keys.contains(&"lockkeeper:name".to_owned()),
        "a claim that is valid for nobody stands: {keys:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_does_not_count_in_its_owners_new_hold() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = ReentrantLock::new(&client, "name");
    let owner = client.new_owner();
    store.plan(&lock::ACQUIRE, Fate::LoseReply);
    let outer = lock.acquire().owner(&owner).await?;
    server.execute(&["DEL", "lockkeeper:name"])?;
    let inner = lock.acquire().owner(&owner).await?;
    ensure!(inner.fencing_token() > outer.fencing_token());
    ensure!(outer.lost().await.reason == LossReason::Gone);
    tokio::time::sleep(secs(1)).await;
    let released = inner.release().await?;
    ensure!(released == Released::Free, "{released:?}");
    drop(
        lock.try_acquire()
            .owner(&client.new_owner())
            .await?
            .context("free")?,
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn claims_survive_a_clock_that_steps_back_and_end_when_it_steps_forward() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    // Mixed clocks: claims survive a backward and a forward step of the server's clock.
    let lock = ReentrantLock::new(&client, "name");
    let owner = client.new_owner();
    let outer = lock.acquire().owner(&owner).await?;
    server.step_clock(-3_600_000);
    let inner = outer.reenter().await?;
    tokio::time::sleep(secs(100)).await;
    ensure!(outer.state() == LeaseState::Held && inner.state() == LeaseState::Held);
    ensure!(inner.release().await? == Released::StillHeld(1));
    ensure!(outer.release().await? == Released::Free);
    let first = lock.acquire().owner(&owner).await?;
    let token = first.fencing_token();
    server.step_clock(7_200_000);
    let stolen = lock
        .try_acquire()
        .owner(&client.new_owner())
        .await?
        .context("the clock has ended the lease")?;
    ensure!(stolen.fencing_token() > token);
    ensure!(first.reenter().await.is_err());
    ensure!(first.verify().await.is_err());
    let _ = store;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn closing_while_guards_are_dropped_and_acquired() -> Result<()> {
    for round in 0..200u64 {
        let server = MemoryStore::new();
        let (client, _store) = faulty(&server, TTL)?;
        let mut tasks = Vec::new();
        for number in 0..10u64 {
            let lock = Mutex::new(&client, &format!("n{}", number % 3));
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis((round * 7 + number * 3) % 11)).await;
                while let Ok(guard) = lock.acquire().await {
                    tokio::time::sleep(Duration::from_millis(1 + number % 4)).await;
                    if number % 2 == 0 {
                        drop(guard);
                    } else {
                        let _ = guard.release().await;
                    }
                }
            }));
        }
        tokio::time::sleep(Duration::from_millis(round % 23)).await;
        let report = tokio::time::timeout(secs(60), client.close()).await?;
        for task in tasks {
            tokio::time::timeout(secs(60), task).await??;
        }
        ensure!(report.unconfirmed == 0, "{report:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn tiny_leases_that_come_at_any_time_are_renewed() -> Result<()> {
    let server = MemoryStore::new();
    let (client, _store) = faulty(&server, TTL)?;
    let _long = Mutex::new(&client, "long").acquire().await?;
    for n in 0..500u64 {
        tokio::time::sleep(Duration::from_millis((n * 37) % 1500)).await;
        let guard = Mutex::new(&client, "tiny")
            .acquire()
            .ttl(Duration::from_millis(60))
            .await?;
        let ran = guard
            .run(tokio::time::sleep(Duration::from_millis(300)))
            .await;
        ensure!(ran.is_ok(), "{n} {:?}", guard.state());
        guard.release().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn max_hold_with_an_acquire_in_doubt_and_fixed() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    for fixed in [false, true] {
        store.plan(&lock::ACQUIRE, Fate::LoseReply);
        let begun = tokio::time::Instant::now();
        let lock = Mutex::new(&client, "name");
        let mut acquire = lock.acquire().max_hold(secs(if fixed { 20 } else { 100 }));
        if fixed {
            acquire = acquire.no_renewal();
        }
        let guard = acquire.await?;
        let reason = guard.lost().await.reason;
        ensure!(
            reason == LossReason::MaxHold,
            "{reason:?} {:?}",
            begun.elapsed()
        );
        ensure!(guard.release().await.is_err());
        lock.acquire().wait_for(secs(1)).await?.release().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn dead_claims_are_swept_out_of_a_name_that_lives_on() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = ReentrantLock::new(&client, "name");
    let owner = client.new_owner();
    // An owner whose claims are never released.
    let outer = lock.acquire().owner(&owner).await?;
    for _ in 0..50 {
        for _ in 0..40 {
            store.plan(&lock::DROP, Fate::LoseRequest);
        }
        let inner = lock
            .acquire()
            .owner(&owner)
            .ttl(secs(1))
            .no_renewal()
            .await?;
        drop(inner);
        tokio::time::sleep(secs(3)).await;
    }
    tokio::time::sleep(secs(100)).await;
    let claims = server.execute(&["ZCARD", "lockkeeper.holders:{lockkeeper:name}"])?;
    ensure!(
        claims
            .as_i64()
            .is_some_and(|claims| (1..=4).contains(&claims)),
        "{claims:?} claims"
    );
    drop(outer);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_leases_renewed_alone_the_one_that_ends_first_goes_first() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let mut guards = Vec::new();
    for number in 0..200 {
        // Every request of the first round gets no reply; the repeat gets one.
        store.plan(&lock::ACQUIRE, Fate::LoseReply);
        let ttl = if number < 100 { secs(4) } else { secs(5) };
        guards.push(
            Mutex::new(&client, &format!("n{number}"))
                .acquire()
                .ttl(ttl),
        );
    }
    let mut held = Vec::new();
    let mut tasks = Vec::new();
    for acquire in guards {
        tasks.push(tokio::spawn(async move { acquire.await }));
    }
    for task in tasks {
        held.push(task.await??);
    }
    // 96 requests in a row without a reply.
    let begun = tokio::time::Instant::now();
    for _ in 0..96 {
        store.plan(&lock::ACQUIRE, Fate::LoseRequest);
    }
    while begun.elapsed() < secs(20) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let lost = held.iter().filter(|g| g.ensure_held().is_err()).count();
        ensure!(lost == 0, "{lost} lost after {:?}", begun.elapsed());
    }
    Ok(())
}
