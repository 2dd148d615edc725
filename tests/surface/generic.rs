//! Code that is generic over kinds, with the facade alone.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::redisson::RedissonLock;
use lockkeeper::{
    Client, FairLock, Guard, Hold, Lock, MultiLock, Mutex, Plan, Redlock, RwLock, Semaphore,
};
use lockkeeper_memory::MemoryStore;

fn client() -> Result<Client> {
    Ok(Client::builder().build(Arc::new(MemoryStore::new()))?)
}

/// A lock whose name has a tenant in front.
#[derive(Debug, Clone)]
struct OfTenant(Mutex);

impl Lock for OfTenant {
    type Guard = Hold;

    fn plan(&self) -> Plan {
        self.0.plan()
    }
}

async fn is_taken_away_from_outside<L: Lock>(lock: L) -> Result<()> {
    let guard = lock.acquire().await?;
    let parts = guard.lease().parts().len();
    let told = lock.revoke().await?;
    ensure!(told == u64::try_from(parts)?, "{lock:?}: told {told}");
    ensure!(guard.lease().verify().await.is_err(), "{lock:?}");
    drop(guard);

    let guard = lock.acquire().await?;
    let seen = lock.inspect().await?;
    let holder = seen.first().and_then(|seen| seen.holders.first());
    let holder = holder.context("nobody is shown")?;
    ensure!(lock.force_release(&holder.claim).await?, "{lock:?}");
    ensure!(!lock.force_release(&holder.claim).await?, "{lock:?}");
    ensure!(guard.lease().verify().await.is_err(), "{lock:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_any_kind_is_taken_away_through_the_trait() -> Result<()> {
    let client = client()?;
    let members = ["a", "b"].map(|name| Mutex::new(&client, name).target());
    is_taken_away_from_outside(Mutex::new(&client, "mutex")).await?;
    is_taken_away_from_outside(OfTenant(Mutex::new(&client, "tenant:mutex"))).await?;
    is_taken_away_from_outside(FairLock::new(&client, "fair")).await?;
    is_taken_away_from_outside(RwLock::new(&client, "rw").writer()).await?;
    is_taken_away_from_outside(Semaphore::new(&client, "permits", 3)).await?;
    is_taken_away_from_outside(RedissonLock::new(&client, "redisson")).await?;
    let several = MultiLock::new(members)?;
    let guard = several.acquire().await?;
    ensure!(Lock::revoke(&several).await? == 2);
    ensure!(guard.verify().await.is_err());

    let servers = [self::client()?, self::client()?, self::client()?];
    is_taken_away_from_outside(Redlock::new(&servers, "majority")?).await
}

/// What code that is generic over kinds can make a set of.
async fn together<A: Lock, B: Lock>(one: A, other: B) -> Result<bool> {
    let members = [one.single_target(), other.single_target()];
    let members = members.into_iter().flatten().collect::<Vec<_>>();
    let set = MultiLock::new(members)?;
    let _held = set.acquire().await?;
    Ok(one.try_acquire().await?.is_none() && other.try_acquire().await?.is_none())
}

#[tokio::test(start_paused = true)]
async fn locks_of_any_kinds_are_taken_together() -> Result<()> {
    let client = client()?;
    let fair = FairLock::new(&client, "fair");
    ensure!(together(Mutex::new(&client, "mutex"), fair).await?);
    let set = MultiLock::new([Mutex::new(&client, "a").target()])?;
    ensure!(set.single_target().is_none(), "a set is no member");
    Ok(())
}

/// In a task of its own, where the future must be `Send`.
#[tokio::test(start_paused = true)]
async fn work_under_two_locks_runs_in_a_task() -> Result<()> {
    let client = client()?;
    let (one, other) = (Mutex::new(&client, "a"), FairLock::new(&client, "b"));
    let task = tokio::spawn(async move {
        let inner = async |_| {
            other
                .acquire()
                .hold(async |lease| lease.fencing_token())
                .await
        };
        one.acquire().hold(inner).await
    });
    ensure!(task.await???.get() > 0);
    Ok(())
}
