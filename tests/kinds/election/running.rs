//! Work that runs while one leads.

use super::*;

/// Counts the tasks at work.
struct AtWork(Arc<AtomicU32>);

impl AtWork {
    fn begin(working: &Arc<AtomicU32>) -> Self {
        working.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(working))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn run_leads_again_and_again_until_the_work_breaks() -> Result<()> {
    let server = MemoryStore::new();
    let (one, other) = (
        election(&server, "one").await?,
        election(&server, "two").await?,
    );
    let mut terms = Vec::new();
    let contender = tokio::spawn(async move {
        other
            .run(|_| async {
                sleep(Duration::from_secs(1)).await;
                ControlFlow::<()>::Continue(())
            })
            .await
    });
    let last = one.run(|leadership| {
        terms.push(leadership.term());
        let last = terms.len() == 5;
        async move {
            sleep(Duration::from_secs(1)).await;
            match last {
                true => ControlFlow::Break(leadership.term()),
                false => ControlFlow::Continue(()),
            }
        }
    });
    let last = last.await?;
    ensure!(terms.len() == 5 && terms.is_sorted() && terms.last() == Some(&last));
    contender.abort();
    ensure!(contender.await.is_err_and(|it| it.is_cancelled()));
    // The dropped leadership has resigned.
    let leadership = timeout(PATIENCE, one.campaign().into_future()).await??;
    ensure!(leadership.term() > last);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_is_stopped_before_another_leads_and_begins_again_with_a_later_term() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    let (one, working) = (Election::new(&client, "name"), Arc::new(AtomicU32::new(0)));
    let begun = Arc::new(Notify::new());
    let (counted, began) = (Arc::clone(&working), Arc::clone(&begun));
    let running = tokio::spawn(async move {
        one.run(|_| {
            let at_work = AtWork::begin(&counted);
            began.notify_one();
            async move {
                let _at_work = at_work;
                std::future::pending::<ControlFlow<()>>().await
            }
        })
        .await
    });
    begun.notified().await;
    let other = election(&server, "two").await?;
    let standby = stand(&other, 1).await?;
    requests.silence("name");
    let leadership = standby.await??;
    ensure!(working.load(Ordering::SeqCst) == 0, "two work");
    // The network works again: no key contains this text.
    requests.silence("nothing is called so");
    leadership.resign().await?;
    timeout(PATIENCE, begun.notified()).await?;
    running.abort();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn run_ends_by_what_asking_again_does_not_mend() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let never = |_| async { ControlFlow::<()>::Break(()) };
    let _mutex = Mutex::new(&client, "name").acquire().await?;
    let kind = Election::new(&client, "name").run(never).await;
    ensure!(matches!(kind, Err(Error::WrongKind { .. })), "{kind:?}");
    let unnamed = Election::new(&client, "").run(never).await;
    ensure!(matches!(unnamed, Err(Error::Config { .. })), "{unnamed:?}");
    client.close().await;
    let closed = Election::new(&client, "other").run(never).await;
    ensure!(matches!(closed, Err(Error::Closed)), "{closed:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn run_asks_a_server_that_refuses_again_and_not_without_a_pause() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    for _ in 0..100 {
        requests.plan(&lock::ACQUIRE, Fate::Refuse("OOM command not allowed"));
    }
    let began = Instant::now();
    let election = Election::new(&client, "name");
    election.run(|_| async { ControlFlow::Break(()) }).await?;
    ensure!(
        began.elapsed() >= Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    Ok(())
}
