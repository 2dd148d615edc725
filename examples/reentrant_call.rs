//! A method that locks calls another method that takes the same lock. With a mutex it would wait for itself; with a re-entrant lock
//! its owner gets in again.
//!
//! Read this when locked code calls locked code and neither should know about the other. The holder is identified by a value, an
//! `Owner`, which you pass on like any argument. `cargo example reentrant_call` needs no server; add
//! `-- --url redis://127.0.0.1:6379` for one.

use std::sync::Mutex as StdMutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{bail, ensure};
use lockkeeper::{Error, Mutex, Owner, ReentrantLock, Released};
use lockkeeper_examples::{Place, Story};

/// An account whose methods lock it, and call one another.
struct Account {
    lock: ReentrantLock,
    balance: StdMutex<i64>,
}

impl Account {
    /// Locks, and pays money in.
    async fn deposit(&self, owner: &Owner, amount: i64) -> anyhow::Result<Released> {
        let guard = self.lock.acquire().owner(owner).await?;
        *self.balance.lock().unwrap_or_else(PoisonError::into_inner) += amount;
        Ok(guard.release().await?)
    }

    /// Locks, and deposits twice: nobody sees the balance in between.
    async fn correct(&self, owner: &Owner, wrong: i64, right: i64) -> anyhow::Result<Released> {
        let guard = self.lock.acquire().owner(owner).await?;
        let undone = self.deposit(owner, -wrong).await?;
        ensure!(undone == Released::StillHeld(1), "the lock was let go");
        // Another owner cannot get in between the two.
        let other = "00000000-0000-4000-8000-000000000000:1".parse()?;
        ensure!(self.lock.try_acquire().owner(&other).await?.is_none());
        self.deposit(owner, right).await?;
        Ok(guard.release().await?)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("reentrant_call").await?;
    let story = Story::new();

    story.chapter("Under a mutex the inner call waits for the outer one");
    let mutex = Mutex::new(&place.client, "wrong");
    let outer = mutex.acquire().await?;
    let patience = Duration::from_millis(200);
    match mutex
        .acquire()
        .owner(&outer.owner())
        .wait_for(patience)
        .await
    {
        Err(error @ Error::Timeout { .. }) => story.tell("inner", error.to_string()),
        other => bail!("it should have waited for itself: {other:?}"),
    }
    outer.release().await?;

    story.chapter("Under a re-entrant lock its owner gets in again");
    let account = Account {
        lock: ReentrantLock::new(&place.client, "account:7"),
        balance: StdMutex::new(100),
    };
    let owner = place.client.new_owner();
    let released = account.correct(&owner, 100, 10).await?;
    let balance = *account
        .balance
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    story.tell("account", format!("has {balance}, and is {released:?}"));
    ensure!(released == Released::Free && balance == 10);

    story.chapter("A short lease inside does not shorten the one outside");
    let outer = account.lock.acquire().owner(&owner).await?;
    let inner = account.lock.acquire().owner(&owner);
    let inner = inner.ttl(Duration::from_secs(2)).no_renewal().await?;
    let reason = inner.lost().await.reason;
    story.tell("inner", format!("is lost: {reason}"));
    outer.verify().await?;
    story.tell("outer", "still holds, says the server");
    drop(inner);
    outer.release().await?;
    place.close().await
}
