//! Ten lines that let a task remember its owner, so that nested calls need not pass an `Owner` on.
//!
//! Read this if you come from a library in which the thread is the holder. Lockkeeper has no thread ids and no hidden task-locals,
//! because async work moves between threads and fans out into tasks. Where one task is one holder, these lines say so.
//! `cargo example task_local_owner` needs no server; add `-- --url redis://127.0.0.1:6379` for one.

use anyhow::ensure;
use lockkeeper::{Acquire, Client, Owner, ReentrantGuard, ReentrantLock, Released};
use lockkeeper_examples::{Place, Story};

tokio::task_local! {
    static OWNER: Owner;
}

/// Runs `work` as one holder.
async fn as_one<F: Future>(client: &Client, work: F) -> F::Output {
    OWNER.scope(client.new_owner(), work).await
}

/// Acquires for the current task's owner. Outside of `as_one` it panics, as a missing task-local does.
fn mine(lock: &ReentrantLock) -> Acquire<ReentrantGuard> {
    OWNER.with(|owner| lock.acquire().owner(owner))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("task_local_owner").await?;
    let story = Story::new();
    let lock = ReentrantLock::new(&place.client, "account:7");

    story.chapter("A method that locks calls another that locks, and hands nothing on");
    as_one(&place.client, async {
        let guard = mine(&lock).await?;
        story.tell("outer", format!("holds as {}", guard.owner()));
        inner(&lock, story).await?;

        story.chapter("A task that is spawned is somebody else, unless it is told");
        let (client, rival) = (place.client.clone(), lock.clone());
        let spawned = tokio::spawn(async move {
            let owner = as_one(&client, async { OWNER.with(|owner| *owner) }).await;
            rival.try_acquire().owner(&owner).await
        });
        ensure!(spawned.await??.is_none(), "two tasks were one holder");
        story.tell("rival", "is another owner, and does not get in");
        let (owner, helper) = (OWNER.with(|owner| *owner), lock.clone());
        let told = tokio::spawn(OWNER.scope(owner, async move { inner(&helper, story).await }));
        told.await??;
        ensure!(guard.release().await? == Released::Free);
        anyhow::Ok(())
    })
    .await?;
    place.close().await
}

async fn inner(lock: &ReentrantLock, story: Story) -> anyhow::Result<()> {
    let guard = mine(lock).await?;
    story.tell("inner", format!("gets in as {}", guard.owner()));
    ensure!(guard.release().await? == Released::StillHeld(1));
    Ok(())
}
