//! Work that is retried when the lock was busy or the server out of reach, but not when that would do harm: backon decides how
//! often and after how long, `Error::is_transient` decides whether.
//!
//! Read this when a job should survive a bad minute. The whole is retried: the acquisition and the work under it. You need not
//! retry an acquisition alone: it waits and asks again by itself for as long as `wait_for` says. `cargo example retry` needs
//! no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::ensure;
use backon::{ExponentialBuilder, Retryable as _};
use lockkeeper::memory::MemoryStore;
use lockkeeper::{Client, Error, LossReason, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::time::sleep;

/// Starts at 100 ms and doubles each time, with jitter, so that machines that failed together do not come back together.
fn pauses() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_max_delay(Duration::from_secs(2))
        .with_max_times(6)
        .with_jitter()
}

/// One try: acquire the lock, work, release it.
async fn import(client: &Client, took: Duration) -> lockkeeper::Result<()> {
    let lock = Mutex::new(client, "import");
    let guard = lock.acquire().wait_for(Duration::from_millis(250)).await?;
    guard.run(sleep(took)).await?;
    guard.release().await?;
    Ok(())
}

/// Retries while that may help. A lost lease is not such a case: the work was stopped in the middle, and only its author knows
/// whether it may start again.
async fn import_at_last(client: &Client, took: Duration, story: Story) -> (u32, Result<(), Error>) {
    let tries = AtomicU32::new(0);
    let attempt = || {
        tries.fetch_add(1, Ordering::Relaxed);
        import(client, took)
    };
    let outcome = attempt
        .retry(pauses())
        .when(Error::is_transient)
        .notify(|error, pause| {
            let pause = pause.as_millis();
            story.tell("import", format!("again in {pause} ms: {error}"));
        })
        .await;
    (tries.into_inner(), outcome)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("retry").await?;
    let story = Story::new();
    let moment = Duration::from_millis(10);

    story.chapter("Somebody holds the lock for a while");
    let other = Mutex::new(&place.client, "import").acquire().await?;
    let away = async {
        sleep(Duration::from_secs(1)).await;
        other.release().await
    };
    let ((tries, outcome), released) =
        tokio::join!(import_at_last(&place.client, moment, story), away);
    released?;
    outcome?;
    story.tell("import", format!("done at try {tries}"));
    ensure!(tries > 1, "it was not in the way");

    story.chapter("The server is out of reach for a while");
    let store = MemoryStore::new();
    let outage = store.faults();
    let client = Client::builder().build(Arc::new(store))?;
    outage.disconnect();
    let repaired = async {
        sleep(Duration::from_secs(1)).await;
        outage.reconnect();
    };
    let ((tries, outcome), ()) = tokio::join!(import_at_last(&client, moment, story), repaired);
    outcome?;
    story.tell("import", format!("done at try {tries}"));
    ensure!(tries > 1, "it was within reach");
    client.close().await;

    story.chapter("What is not tried again: a lease that was lost in the middle, and a setting that cannot work");
    let minute = Duration::from_secs(60);
    let operator = async {
        loop {
            sleep(Duration::from_millis(20)).await;
            match place.client.revoke("import").await {
                Ok(0) => {}
                told => break told,
            }
        }
    };
    let ((_, outcome), told) = tokio::join!(import_at_last(&place.client, minute, story), operator);
    ensure!(told? == 1);
    let Err(lost @ Error::Lost { reason, .. }) = &outcome else {
        anyhow::bail!("it was not lost: {outcome:?}");
    };
    story.tell("import", lost.to_string());
    ensure!(*reason == LossReason::Revoked);
    let unnamed = Mutex::new(&place.client, "").try_acquire().await;
    let error = unnamed.err().unwrap_or(Error::Closed);
    story.tell("import", error.to_string());
    ensure!(!error.is_transient());
    place.close().await
}
