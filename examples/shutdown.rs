//! A service that is asked to stop: it starts no new work, finishes the work under way, releases its locks, then closes the client,
//! which reports what is left. One worker hangs; it loses its lease, which expires on the server.
//!
//! Read this before you write `main`. `cargo example shutdown` needs no server; add `-- --url redis://127.0.0.1:6379` for
//! one.

use std::time::Duration;

use anyhow::ensure;
use lockkeeper::{Client, Error, LossReason, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("shutdown").await?;
    let story = Story::new();
    let (stop, stopping) = watch::channel(false);

    story.chapter("Three workers at work, one of which hangs");
    let mut workers = JoinSet::new();
    for name in ["ann", "bob"] {
        workers.spawn(work(place.client.clone(), name, stopping.clone(), story));
    }
    let hung = Mutex::new(&place.client, "desk:carl").acquire().await?;
    let waiting = Mutex::new(&place.client, "desk:carl");
    let waiting = tokio::spawn(waiting.acquire().into_future());
    sleep(Duration::from_millis(150)).await;

    // In a service: tokio::signal::ctrl_c(), or SIGTERM.
    story.chapter("SIGTERM: finish what you do, begin nothing new");
    stop.send(true)?;
    let all = async {
        while let Some(worker) = workers.join_next().await {
            worker??;
        }
        anyhow::Ok(())
    };
    // A limit for workers that do not stop. A guard that is dropped then is released too, in the background.
    timeout(Duration::from_secs(60), all).await??;

    story.chapter("Close the client, last of all");
    let report = place.client.close().await;
    story.tell(
        "client",
        format!("{} lease is left to expire", report.expiring),
    );
    ensure!(
        report.expiring == 1 && report.unconfirmed == 0,
        "{report:?}"
    );
    let reason = hung.lost().await.reason;
    story.tell("carl", format!("has lost his lease: {reason}"));
    ensure!(reason == LossReason::ClientClosed);
    let refused = waiting.await?;
    ensure!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    story.tell("dora", "no longer waits for carl's desk: closed");

    story.chapter("What the next process finds");
    let next = place.another().await?;
    for desk in ["desk:ann", "desk:bob"] {
        ensure!(Mutex::new(&next, desk).try_acquire().await?.is_some());
        story.tell("next", format!("{desk} is free"));
    }
    let taken = Mutex::new(&next, "desk:carl").try_acquire().await?;
    ensure!(taken.is_none(), "nobody knows whether carl has stopped");
    story.tell("next", "desk:carl is taken until its ttl is over");
    // An operator who knows that carl is dead does not have to wait.
    for holder in next.inspect("desk:carl").await?.holders {
        next.force_release("desk:carl", &holder.claim).await?;
    }
    next.close().await;
    Ok(())
}

/// Does one piece of work after the other, each under the lock, until it is told to stop.
async fn work(
    client: Client,
    name: &'static str,
    stopping: watch::Receiver<bool>,
    story: Story,
) -> anyhow::Result<()> {
    let desk = Mutex::new(&client, &format!("desk:{name}"));
    let mut pieces = 0;
    while !*stopping.borrow() {
        let guard = desk.acquire().await?;
        guard.run(sleep(Duration::from_millis(40))).await?;
        guard.release().await?;
        pieces += 1;
    }
    story.tell(
        name,
        format!("ends after {pieces} pieces, and holds nothing"),
    );
    Ok(())
}
