//! Work whose runner dies or is cancelled, lost requests, and servers that lose data.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_runner_that_dies_has_one_successor_when_its_lease_ends() -> Result<()> {
    let server = MemoryStore::new();
    let (dies, requests) = faulty(&server, TTL)?;
    let running = Gate::default()
        .begin(&Once::new(&dies, "name"), "lost")
        .await?;
    requests.silence("name");
    let began = Instant::now();
    let runs = Arc::new(AtomicU32::new(0));
    let mut waiting = JoinSet::new();
    for _ in 0..5 {
        let once = Once::new(&client(&server, TTL).await?, "name");
        for _ in 0..5 {
            let (once, runs) = (once.clone(), Arc::clone(&runs));
            waiting.spawn(async move {
                once.get_or_run(async |_| {
                    runs.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, Failure>(b"made".to_vec())
                })
                .await
            });
        }
    }
    while let Some(outcome) = waiting.join_next().await {
        ensure!(outcome??.into_value() == b"made");
    }
    ensure!(runs.load(Ordering::SeqCst) == 1);
    ensure!(
        began.elapsed() <= TTL + Duration::from_millis(100),
        "{:?}",
        began.elapsed()
    );
    let lost = running.await?;
    ensure!(
        matches!(
            lost,
            Err(OnceError::Lock(Error::Lost {
                reason: LossReason::Expired,
                ..
            }))
        ),
        "{lost:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_when_the_claim_is_gone_is_handed_back_and_not_stored() -> Result<()> {
    let server = MemoryStore::new();
    let once = Once::new(&client(&server, TTL).await?, "name");
    let made = once
        .get_or_run(async |_| {
            // Deleted by hand; no client is notified.
            let deleted = server.execute(&["DEL", "lockkeeper:name"]).is_ok();
            match deleted {
                true => Ok(b"late".to_vec()),
                false => Err(Failure),
            }
        })
        .await;
    let Err(OnceError::NotKept {
        value,
        error: Error::Lost { .. },
        ..
    }) = made
    else {
        bail!("{made:?}");
    };
    ensure!(value == b"late");
    ensure!(once.peek().await?.is_none());
    ensure!(make(&once, "made").await? == ran("made"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_that_is_cancelled_lets_another_do_it_at_once() -> Result<()> {
    let server = MemoryStore::new();
    let once = Once::new(&client(&server, TTL).await?, "name");
    let other = Once::new(&client(&server, TTL).await?, "name");
    let running = Gate::default().begin(&once, "never").await?;
    let waiting = tokio::spawn(async move { make(&other, "made").await });
    listened(&server, 1).await?;
    let began = Instant::now();
    running.abort();
    ensure!(waiting.await?? == ran("made"));
    ensure!(began.elapsed() < Duration::from_secs(1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_is_cancelled_while_waiting_leaves_nothing_behind() -> Result<()> {
    let server = MemoryStore::new();
    let gate = Gate::default();
    let running = gate
        .begin(&Once::new(&client(&server, TTL).await?, "name"), "made")
        .await?;
    let waits = client(&server, TTL).await?;
    let once = Once::new(&waits, "name");
    for _ in 0..3 {
        let once = once.clone();
        let waiting = tokio::spawn(async move { make(&once, "again").await });
        listened(&server, 1).await?;
        waiting.abort();
        ensure!(waiting.await.is_err_and(|error| error.is_cancelled()));
    }
    gate.open();
    ensure!(running.await?? == ran("made"));
    ensure!(make(&once, "again").await? == stored("made"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_is_stored_also_if_its_caller_is_cancelled_meanwhile() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    requests.plan(&once::STORE, Fate::LoseRequest);
    let once = Once::new(&client, "name");
    let running = tokio::spawn({
        let once = once.clone();
        async move { make(&once, "made").await }
    });
    requests.wait_sent(&once::STORE, 1).await;
    running.abort();
    ensure!(running.await.is_err_and(|error| error.is_cancelled()));
    requests.wait_sent(&once::STORE, 2).await;
    ensure!(make(&once, "again").await? == stored("made"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_at_any_await_leaves_the_work_to_others() -> Result<()> {
    let server = MemoryStore::new();
    let (slow, requests) = faulty(&server, TTL)?;
    for script in [&once::ACQUIRE, &once::STORE] {
        requests.slow_down(script, Duration::from_millis(10));
    }
    let once = Once::new(&slow, "name");
    let other = Once::new(&client(&server, TTL).await?, "name");
    let mut given_up = 0;
    for polls in 1..16 {
        let running = once.get_or_run(async |_| {
            sleep(Duration::from_millis(1)).await;
            Ok::<_, Failure>(b"first".to_vec())
        });
        let first = drop_after(running, polls).await;
        given_up += u32::from(first.is_none());
        let began = Instant::now();
        let second = timeout(PATIENCE, make(&other, "second")).await??;
        // Finished work is stored, whichever callers have given up meanwhile.
        let is_stored = second == stored("first");
        ensure!(
            is_stored || first.is_none() && second == ran("second"),
            "{polls}: {second:?}"
        );
        ensure!(
            began.elapsed() < Duration::from_secs(1),
            "{:?}",
            began.elapsed()
        );
        ensure!(other.forget().await?);
    }
    ensure!((4..15).contains(&given_up), "given up {given_up} times");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_lets_another_do_it_at_once() -> Result<()> {
    let server = MemoryStore::new();
    let once = Once::new(&client(&server, TTL).await?, "name");
    let other = Once::new(&client(&server, TTL).await?, "name");
    let gate = Arc::new(Notify::new());
    let running = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move {
            let work = async |_| -> Result<Vec<u8>, Failure> {
                gate.notified().await;
                panic!("the work panics, as this test wants")
            };
            once.get_or_run(work).await
        }
    });
    let waiting = tokio::spawn(async move { make(&other, "made").await });
    listened(&server, 1).await?;
    let began = Instant::now();
    gate.notify_one();
    ensure!(running.await.is_err_and(|error| error.is_panic()));
    ensure!(waiting.await?? == ran("made"));
    ensure!(began.elapsed() < Duration::from_secs(1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_answer_was_lost_is_repeated_and_is_one() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    let warm = Once::new(&client, "other");
    make(&warm, "made").await?;
    let before = requests.sent(&once::STORE);
    requests.plan(&once::STORE, Fate::LoseReply);
    let once = Once::new(&client, "name");
    ensure!(make(&once, "made").await? == ran("made"));
    ensure!(requests.sent(&once::STORE) - before == 2);
    ensure!(make(&once, "again").await? == stored("made"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_without_any_answer_gives_the_value_back_and_goes_on_in_the_background()
-> Result<()> {
    let server = MemoryStore::new();
    let (faulty_client, requests) = faulty(&server, 10 * TTL)?;
    for _ in 0..3 {
        requests.plan(&once::STORE, Fate::LoseRequest);
    }
    let once = Once::new(&faulty_client, "name");
    let made = make(&once, "made").await;
    let Err(OnceError::NotKept { value, error, .. }) = made else {
        bail!("{made:?}");
    };
    ensure!(value == b"made");
    ensure!(matches!(error, Error::Backend { .. }), "{error:?}");
    ensure!(faulty_client.close().await.unconfirmed == 0);
    let other = Once::new(&client(&server, TTL).await?, "name");
    ensure!(make(&other, "again").await? == stored("made"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_acquire_whose_answer_was_lost_is_the_same_run() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    make(&Once::new(&client, "other"), "made").await?;
    requests.plan(&once::ACQUIRE, Fate::LoseReply);
    let once = Once::new(&client, "name");
    ensure!(make(&once, "made").await? == ran("made"));
    // The first copy may still be in flight: it finds a tombstone, or the result.
    let gone = server
        .keys()
        .iter()
        .any(|key| key.starts_with("lockkeeper.gone"));
    ensure!(gone, "no tombstone");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_evicted_result_is_made_again_and_lost_data_refuse_the_first() -> Result<()> {
    let server = MemoryStore::new();
    let once = Once::new(&client(&server, TTL).await?, "name");
    ensure!(make(&once, "made").await? == ran("made"));
    server.command(&["DEL", RECORD]).await?;
    let gate = Gate::default();
    let running = gate.begin(&once, "first").await?;
    server.command(&["DEL", "lockkeeper:name"]).await?;
    let other = Once::new(&client(&server, TTL).await?, "name");
    ensure!(make(&other, "second").await? == ran("second"));
    gate.open();
    let first = running.await?;
    ensure!(
        matches!(
            first,
            Err(OnceError::NotKept {
                error: Error::Lost { .. },
                ..
            } | OnceError::Lock(Error::Lost { .. }))
        ),
        "{first:?}"
    );
    ensure!(make(&once, "again").await? == stored("second"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_that_is_asked_back_is_stopped() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let once = Once::new(&client, "name");
    let running = Gate::default().begin(&once, "never").await?;
    ensure!(client.revoke("name").await? == 1);
    let revoked = running.await?;
    ensure!(
        matches!(
            revoked,
            Err(OnceError::Lock(Error::Lost {
                reason: LossReason::Revoked,
                ..
            }))
        ),
        "{revoked:?}"
    );
    ensure!(make(&once, "made").await? == ran("made"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_does_no_work_and_stores_what_was_done() -> Result<()> {
    let server = MemoryStore::new();
    let one = client(&server, TTL).await?;
    let once = Once::new(&one, "name");
    ensure!(make(&once, "made").await? == ran("made"));
    let clone: Client = one.clone();
    clone.close().await;
    let closed = make(&once, "again").await;
    ensure!(
        matches!(closed, Err(OnceError::Lock(Error::Closed))),
        "{closed:?}"
    );
    let other = Once::new(&client(&server, TTL).await?, "name");
    ensure!(make(&other, "again").await? == stored("made"));
    Ok(())
}
