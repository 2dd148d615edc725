//! The seventh generation: what Lockkeeper does about each of these failures.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Error, LossReason, Mutex, ReentrantLock, Released};
use tokio::time::{Instant, sleep, timeout};

use super::stage::Stage;

/// Longer than that of the old generations, because here nothing may go wrong.
const LEASE: Duration = Duration::from_secs(2);

pub(crate) async fn lockkeeper(stage: &mut Stage) -> Result<()> {
    watchdog(stage).await?;
    wake(stage).await?;
    reentry(stage).await?;
    crash(stage).await?;
    knowledge(stage).await?;
    fencing(stage).await?;
    println!(
        "     What remains: after a failover two may believe, until one of them is told; and who"
    );
    println!(
        "     sleeps may write late. No lock that expires helps there. The resource refuses it, by the token."
    );
    Ok(())
}

async fn watchdog(stage: &Stage) -> Result<()> {
    let lock = Mutex::new(&stage.place.client, "watchdog");
    let ann = lock.acquire().ttl(LEASE).await?;
    stage.tell("ann", "works for twice as long as her lease");
    let late = lock.acquire().wait_for(2 * LEASE).await;
    let kept_out = matches!(late, Err(Error::Timeout { .. }));
    let held = ann.verify().await.is_ok();
    ann.release().await?;
    stage.repaired(
        "the watchdog has renewed it: nobody got in",
        held && kept_out,
    )
}

async fn wake(stage: &Stage) -> Result<()> {
    let lock = Mutex::new(&stage.place.client, "wake");
    let ann = lock.acquire().await?;
    let next = lock.clone();
    let bob = tokio::spawn(async move {
        let guard = next.acquire().await?;
        let told = Instant::now();
        guard.release().await.map(|_| told)
    });
    stage.tell("bob", "waits, without asking");
    sleep(LEASE / 2).await;
    let left = Instant::now();
    ann.release().await?;
    let waited = bob.await??.duration_since(left);
    stage.tell(
        "bob",
        format!("has it {} ms after ann has left", waited.as_millis()),
    );
    stage.repaired("a message wakes who waits", waited < LEASE)
}

async fn reentry(stage: &Stage) -> Result<()> {
    let lock = ReentrantLock::new(&stage.place.client, "reentry");
    let owner = stage.place.client.new_owner();
    let outer = lock.acquire().owner(&owner).await?;
    let inner = lock.acquire().owner(&owner).await?;
    let still_held = inner.release().await? == Released::StillHeld(1);
    let free = outer.release().await? == Released::Free;
    stage.repaired(
        "a nested call gets in, and lets nobody else in",
        still_held && free,
    )
}

async fn crash(stage: &Stage) -> Result<()> {
    let dying = stage.place.another().await?;
    let guard = Mutex::new(&dying, "crash").acquire().ttl(LEASE).await?;
    // A closed client lets the lock that it holds expire, as a dead one does.
    dying.close().await;
    stage.tell("ann", "dies");
    let lock = Mutex::new(&stage.place.client, "crash");
    let next = timeout(Duration::from_secs(60), lock.acquire()).await;
    drop(guard);
    stage.repaired("a dead holder's lock becomes free", next.is_ok())
}

async fn knowledge(stage: &Stage) -> Result<()> {
    let lock = Mutex::new(&stage.place.client, "knowledge");
    let ann = lock.acquire().ttl(LEASE).await?;
    let work = tokio::spawn(async move {
        let begun = Instant::now();
        match ann.run(sleep(Duration::from_secs(3600))).await {
            Err(Error::Lost { reason, .. }) => Ok((reason, begun.elapsed())),
            other => anyhow::bail!("an hour of work was done: {other:?}"),
        }
    });
    // The grant comes first, its loss second.
    tokio::task::yield_now().await;
    stage.fail_over("evolution:knowledge").await?;
    let (reason, after) = work.await??;
    stage.tell(
        "ann",
        format!("is stopped after {} ms: {reason}", after.as_millis()),
    );
    ensure!(reason == LossReason::Gone, "{reason}");
    stage.repaired("a holder is told that its lock is gone", after < LEASE)
}

async fn fencing(stage: &Stage) -> Result<()> {
    let lock = Mutex::new(&stage.place.client, "fencing");
    let ann = lock.acquire().ttl(LEASE).no_renewal().await?;
    let old = ann.fencing_token();
    stage.tell("ann", format!("holds with token {old}, and falls asleep"));
    sleep(LEASE).await;
    let bob = lock.acquire().wait_for(Duration::from_secs(60)).await?;
    // What the lock protects: it remembers the largest token that it has seen.
    let seen = bob.fencing_token();
    stage.tell("bob", format!("writes with token {seen}"));
    let refused = old < seen;
    stage.tell(
        "ann",
        format!("wakes up and writes with token {old}: refused"),
    );
    let known = ann.ensure_held().is_err();
    drop(ann);
    bob.release().await?;
    stage.repaired(
        "a late write has a smaller number, and its holder knows",
        refused && known,
    )
}
