//! Five ways to lose a lease, and five ways to notice: work that is stopped, a branch of `select!`, a check before the step that
//! matters, a question to the server, and a watcher that outlives the guard.
//!
//! Read this when you wonder what your program should do when it no longer holds the lock. `cargo example lost_lease` needs
//! no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::time::Duration;

use anyhow::{bail, ensure};
use lockkeeper::{Error, LeaseState, LossReason, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::time::{sleep, timeout};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("lost_lease").await?;
    timeout(Duration::from_secs(60), all(&place, Story::new())).await??;
    place.close().await
}

async fn all(place: &Place, story: Story) -> anyhow::Result<()> {
    let lock = Mutex::new(&place.client, "job");

    story.chapter("Its time is over: work under guard.run stops at its next await");
    let guard = lock.acquire().max_hold(Duration::from_millis(150)).await?;
    match guard.run(sleep(Duration::from_secs(60))).await {
        Err(Error::Lost { reason, .. }) => {
            story.tell("run", format!("stopped: {reason}"));
            ensure!(reason == LossReason::MaxHold);
        }
        other => bail!("a minute of work was done: {other:?}"),
    }
    drop(guard);

    story.chapter("It is asked back: a branch of select! ends the work its own way");
    let guard = lock.acquire().await?;
    place.client.revoke("job").await?;
    tokio::select! {
        lost = guard.lost() => {
            story.tell("select!", format!("saves what it has, and ends: {lost}"));
            ensure!(lost.reason == LossReason::Revoked);
        }
        () = sleep(Duration::from_secs(60)) => bail!("nobody was told"),
    }
    drop(guard);

    story.chapter("It was not renewed in time: a check before the step that matters");
    let ttl = Duration::from_secs(2);
    let guard = lock.acquire().ttl(ttl).no_renewal().await?;
    guard.ensure_held()?;
    sleep(ttl).await;
    let checked = guard.ensure_held();
    story.tell("check", format!("says {:?}", guard.state()));
    ensure!(matches!(checked, Err(Error::Lost { .. })));
    ensure!(guard.state() == LeaseState::Lost(LossReason::Expired));
    drop(guard);

    story.chapter("Somebody deleted the key: a question to the server");
    let guard = lock.acquire().wait_for(Duration::from_secs(60)).await?;
    place.redis.command(&["DEL", "lost_lease:job"]).await?;
    // Without this question the next renewal would notice, at most a third of the ttl later.
    match guard.verify().await {
        Err(Error::Lost { reason, .. }) => {
            story.tell("verify", format!("says lost: {reason}"));
            ensure!(reason == LossReason::Gone);
        }
        other => bail!("the key is gone, not {other:?}"),
    }
    drop(guard);

    story.chapter("The client is closed: a watcher that somebody else has spawned");
    let other = place.another().await?;
    let guard = Mutex::new(&other, "other").acquire();
    let guard = guard.ttl(Duration::from_secs(2)).await?;
    let watcher = tokio::spawn(guard.ended());
    let report = other.close().await;
    let end = watcher.await?;
    story.tell("watcher", format!("is told {end:?}"));
    story.tell("close", format!("left {} lease to expire", report.expiring));
    ensure!(end.reason() == Some(LossReason::ClientClosed) && report.expiring == 1);
    Ok(())
}
