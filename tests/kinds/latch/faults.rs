//! Cancelled waiters, lost requests and messages, and servers that lose data.

use std::sync::Arc;

use lockkeeper::Client;
use lockkeeper_testkit::faulty::Fate;

use super::*;

#[tokio::test(start_paused = true)]
async fn who_is_cancelled_while_waiting_leaves_the_others_their_wake() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, LEASE)?;
    let mut latch = Latch::new(&client, "name");
    latch.arm(1).await?;
    latch = latch.ttl(TTL);
    // The first waiter looks for all. It is cancelled while it asks, before messages are known to arrive, or while it waits.
    requests.slow_down(&latch::LOOK, Duration::from_millis(2));
    for after in [0, 1, 2, 3, 5, 20] {
        let (first, second) = (waiting(&latch).await, waiting(&latch).await);
        sleep(Duration::from_millis(after)).await;
        first.abort();
        ensure!(first.await.is_err_and(|error| error.is_cancelled()));
        ensure!(!second.is_finished());
        second.abort();
    }
    let (first, second) = (waiting(&latch).await, waiting(&latch).await);
    listened(&server, 1).await?;
    // It is cancelled after it was notified, in the middle of its look.
    requests.slow_down(&latch::LOOK, Duration::from_millis(50));
    let looks = requests.sent(&latch::LOOK);
    latch.count_down("a").await?;
    requests.wait_sent(&latch::LOOK, looks + 1).await;
    first.abort();
    timeout(Duration::from_secs(1), second).await???;
    client.close().await;
    let tombstones = |key: &String| key.starts_with("lockkeeper.gone");
    ensure!(!server.keys().iter().any(tombstones), "{:?}", server.keys());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_answer_was_lost_is_repeated_and_is_one() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, LEASE)?;
    let (other, latch) = (Latch::new(&client, "other"), Latch::new(&client, "name"));
    // The server knows the scripts.
    other.arm(1).await?;
    other.count_down("a").await?;
    other.wait().await?;
    for fate in [Fate::LoseReply, Fate::LoseRequest, Fate::NotSent] {
        requests.plan(&latch::ARM, fate);
        let armed = latch.arm(3).await?;
        ensure!(armed == (fate == Fate::LoseReply), "{fate:?}");
    }
    for (fate, id) in [
        (Fate::LoseReply, "a"),
        (Fate::LoseRequest, "b"),
        (Fate::NotSent, "c"),
    ] {
        requests.plan(&latch::COUNT_DOWN, fate);
        latch.count_down(id).await?;
    }
    for fate in [Fate::LoseReply, Fate::LoseRequest, Fate::NotSent] {
        requests.plan(&latch::LOOK, fate);
        latch.wait().await?;
        requests.plan(&latch::LOOK, fate);
        ensure!(latch.remaining().await? == 0);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_request_that_stays_without_answer_is_an_error_and_may_be_made_again() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, LEASE)?;
    let latch = Latch::new(&client, "name");
    requests.plan(&latch::ARM, Fate::LoseReply);
    requests.plan(&latch::ARM, Fate::LoseReply);
    let unknown = latch.arm(1).await;
    ensure!(matches!(&unknown, Err(error @ Error::Backend { .. }) if error.is_transient()));
    ensure!(unknown.is_err_and(|error| error.to_string().contains("arm lock \"name\"")));
    latch.arm(1).await?;
    requests.plan(&latch::COUNT_DOWN, Fate::LoseReply);
    requests.plan(&latch::COUNT_DOWN, Fate::LoseReply);
    let unknown = latch.count_down("a").await;
    ensure!(matches!(unknown, Err(Error::Backend { .. })), "{unknown:?}");
    ensure!(latch.count_down("a").await? == 0);
    Ok(())
}

/// The server executes a copy long after its caller has given it up.
#[tokio::test(start_paused = true)]
async fn a_late_request_neither_counts_twice_nor_brings_a_latch_back() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, LEASE)?;
    let latch = Latch::new(&client, "name").ttl(TTL);
    latch.arm(2).await?;
    requests.plan(&latch::ARM, Fate::Keep);
    ensure!(!latch.arm(2).await?);
    latch.count_down("a").await?;
    requests.plan(&latch::COUNT_DOWN, Fate::Keep);
    latch.count_down("a").await?;
    let late = requests.deliver(&server).await;
    ensure!(
        late.len() == 2 && late.iter().all(Result::is_ok),
        "{late:?}"
    );
    ensure!(latch.remaining().await? == 1);
    latch.count_down("b").await?;
    requests.plan(&latch::ARM, Fate::Keep);
    ensure!(!latch.arm(2).await?);
    requests.deliver(&server).await;
    ensure!(latch.remaining().await? == 0);
    Ok(())
}

/// The look began before the latch was armed again.
#[tokio::test(start_paused = true)]
async fn a_look_under_way_says_nothing_to_who_comes_behind_it() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, LEASE)?;
    let (latch, other) = (Latch::new(&client, "name"), latch(&server).await?);
    latch.arm(1).await?;
    let first = waiting(&latch).await;
    listened(&server, 1).await?;
    sleep(Duration::from_millis(10)).await;
    // The reply comes later than the execution.
    requests.slow_down(&latch::LOOK, Duration::from_millis(100));
    let looks = requests.sent(&latch::LOOK);
    server.command(&["DEL", COUNTED]).await?;
    server.command(&["PUBLISH", WAKES, "free"]).await?;
    requests.wait_sent(&latch::LOOK, looks + 1).await;
    sleep(Duration::from_millis(10)).await;
    other.arm(1).await?;
    let second = waiting(&latch).await;
    ensure!(is_not_armed(&first.await?, true));
    sleep(Duration::from_secs(1)).await;
    ensure!(!second.is_finished());
    other.count_down("a").await?;
    timeout(PATIENCE, second).await???;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_waits_passes_by_a_timer_when_no_message_comes() -> Result<()> {
    let server = MemoryStore::new();
    let latch = latch(&server).await?;
    latch.arm(1).await?;
    let waits = waiting(&latch).await;
    listened(&server, 1).await?;
    let began = Instant::now();
    // The last count, without its message.
    let value = server.command(&["LINDEX", MAIN, "0"]).await?;
    let open = value.replace("1/1", "0/1");
    server.command(&["LSET", MAIN, "0", &open]).await?;
    waits.await??;
    ensure!(began.elapsed() < Duration::from_secs(6));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_when_the_server_has_lost_the_latch() -> Result<()> {
    for (lost, ended) in [
        (&[MAIN, COUNTED][..], false),
        (&[MAIN], true),
        (&[COUNTED], true),
    ] {
        let server = MemoryStore::new();
        let latch = latch(&server).await?;
        latch.arm(2).await?;
        latch.count_down("a").await?;
        let waits = waiting(&latch).await;
        listened(&server, 1).await?;
        for key in lost {
            server.command(&["DEL", key]).await?;
        }
        let told = timeout(Duration::from_secs(6), waits).await??;
        ensure!(is_not_armed(&told, ended), "{lost:?}: {told:?}");
        ensure!(is_not_armed(&latch.count_down("b").await, ended));
        // Arming again starts anew: the lost counts must be repeated.
        latch.arm(2).await?;
        ensure!(latch.count_down("b").await? == 1);
        ensure!(latch.count_down("a").await? == 0);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_or_refuses_is_an_error_of_all_who_wait() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, LEASE)?;
    let latch = Latch::new(&client, "name");
    latch.arm(1).await?;
    let waiters = [waiting(&latch).await, waiting(&latch).await];
    listened(&server, 1).await?;
    requests.silence("name");
    let began = Instant::now();
    for waiter in waiters {
        let gave_up = waiter.await?;
        ensure!(matches!(gave_up, Err(Error::Backend { .. })), "{gave_up:?}");
    }
    // A look, which comes within 5 s, and the patience of a lease.
    ensure!(began.elapsed() < Duration::from_secs(5) + 2 * LEASE);
    let (client, requests) = faulty(&server, LEASE)?;
    let latch = Latch::new(&client, "name");
    requests.refuse_subscriptions("NOPERM no channel");
    let refused = latch.wait().await;
    ensure!(matches!(refused, Err(Error::Backend { .. })), "{refused:?}");
    Ok(())
}

/// A client that has lost its connection asks after a second, and one whose server is silent after 5 s at most.
#[tokio::test(start_paused = true)]
async fn a_dead_server_is_told_after_one_ttl_also_beside_a_more_patient_waiter() -> Result<()> {
    let short = Duration::from_secs(2);
    for patient in [None, Some(Duration::from_secs(60))] {
        let server = MemoryStore::new();
        let store = server.sibling();
        let faults = store.faults();
        let client = Client::builder().ttl(short).build(Arc::new(store))?;
        let latch = Latch::new(&client, "name");
        latch.arm(1).await?;
        let patient = match patient {
            Some(wait) => Some(waiting(&latch.clone().wait_for(wait)).await),
            None => None,
        };
        let waits = waiting(&latch).await;
        listened(&server, 1).await?;
        let began = Instant::now();
        faults.disconnect();
        let behind = waiting(&latch).await;
        for waits in [waits, behind] {
            let told = waits.await?;
            ensure!(matches!(told, Err(Error::Backend { .. })), "{told:?}");
            let took = began.elapsed();
            let expected = short..short + Duration::from_millis(1_100);
            ensure!(expected.contains(&took), "told after {took:?}");
        }
        if let Some(patient) = patient {
            let told = patient.await?;
            ensure!(matches!(told, Err(Error::Backend { .. })), "{told:?}");
            ensure!(began.elapsed() > Duration::from_secs(59), "cut short");
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_ends_every_wait() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, LEASE).await?;
    let latch = Latch::new(&client, "name");
    latch.arm(1).await?;
    let waits = waiting(&latch).await;
    listened(&server, 1).await?;
    client.close().await;
    ensure!(matches!(waits.await?, Err(Error::Closed)));
    ensure!(matches!(latch.wait().await, Err(Error::Closed)));
    ensure!(matches!(latch.arm(1).await, Err(Error::Closed)));
    ensure!(matches!(latch.count_down("a").await, Err(Error::Closed)));
    Ok(())
}
