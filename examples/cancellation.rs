//! Futures that are dropped, in the middle of waiting and in the middle of a request, leave nothing behind.
//!
//! Read this when you use `select!`, timeouts or `abort`, which is to say always. `cargo example cancellation` needs no
//! server; add `-- --url redis://127.0.0.1:6379` for one.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use lockkeeper::{FairLock, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::time::{sleep, timeout};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("cancellation").await?;
    let story = Story::new();

    story.chapter("A wait that is dropped leaves the queue");
    let lock = FairLock::new(&place.client, "printer");
    let busy = lock.acquire().await?;
    let waiter = tokio::spawn(lock.acquire().into_future());
    until(&lock, 1).await?;
    story.tell("queue", "has one waiter");
    waiter.abort();
    until(&lock, 0).await?;
    story.tell("queue", "is empty again: abort was enough");
    let patience = Duration::from_millis(50);
    let given_up = timeout(patience, lock.acquire()).await;
    ensure!(given_up.is_err(), "it was held");
    until(&lock, 0).await?;
    story.tell("queue", "is empty again: so was a timeout from outside");
    busy.release().await?;

    story.chapter("Requests that are dropped at any moment hold nothing");
    let mutex = Mutex::new(&place.client, "till");
    let mut granted = 0;
    for micros in (0..2000).step_by(20) {
        // Some of these are granted and seen, some are granted and unseen, some never sent.
        let brief = Duration::from_micros(micros);
        if let Ok(guard) = timeout(brief, mutex.acquire()).await {
            granted += 1;
            drop(guard?);
        }
    }
    story.tell(
        "till",
        format!("100 asked in a hurry, {granted} heard of their grant"),
    );
    let guard = mutex.acquire().wait_for(Duration::from_secs(60)).await?;
    story.tell("till", "is free for the next who asks");

    story.chapter("A guard that is dropped is a lock that is released, a moment later");
    let next = tokio::spawn(
        mutex
            .acquire()
            .wait_for(Duration::from_secs(60))
            .into_future(),
    );
    drop(guard);
    let guard = next.await??;
    story.tell("next", "has it: Drop posted a message, and the reaper left");

    story.chapter("A release that is dropped halfway goes on in the background");
    let release = guard.release();
    let _ = timeout(Duration::ZERO, release).await;
    let guard = mutex.acquire().wait_for(Duration::from_secs(60)).await?;
    story.tell("next", "has it");
    guard.release().await?;
    place.close().await
}

/// Waits until this many are in the queue.
async fn until(lock: &FairLock, number: u64) -> anyhow::Result<()> {
    let there = async {
        while lock.queue_len().await? != number {
            sleep(Duration::from_millis(1)).await;
        }
        anyhow::Ok(())
    };
    let there = timeout(Duration::from_secs(60), there).await;
    there.context("the queue did not change")?
}
