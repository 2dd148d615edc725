//! A future that is dropped after any of its polls leaves nothing behind: no key, no task, nothing that closing reports.
//!
//! Each case names a future, which is dropped once after each of its polls. A request passes four polls: before it is sent, on
//! its way, its reply on its way, and its reply there. A request on its way arrives although nobody waits for it any more,
//! before the release that follows it or behind that. Servers and network are in this process and time is paused, so each
//! drop happens at exactly one point of an exchange.

mod world;

use anyhow::{Context as _, Result};
use lockkeeper::{
    Client, FairLock, Guard, Lock as _, MultiLock, Mutex, Reader, ReentrantLock, RwLock, Semaphore,
    Writer,
};
use lockkeeper_testkit::subject::Subject;
use lockkeeper_tests::polling;
use world::{APART, Case, NAME, World, at_every_poll};

/// Makes tests of these cases, each for every kind.
macro_rules! of_every_kind {
    ($($case:ident)*) => {$(
        mod $case {
            use super::*;

            of_every_kind! {@ $case
                mutex: Mutex, reentrant: ReentrantLock, fair: FairLock, readers: Reader, writers: Writer,
                semaphore: Semaphore
            }
        }
    )*};
    (@ $case:ident $($kind:ident: $subject:ty),*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $kind() -> Result<()> {
            at_every_poll(Client::builder(), super::$case::<$subject>).await
        }
    )*};
}

of_every_kind! {
    cancelled_acquisition_leaves_nothing
    cancelled_waiter_behind_another_client_leaves_nothing
    cancelled_waiter_behind_own_client_leaves_nothing
    cancelled_release_frees_name
    cancelled_release_serves_waiter_of_another_client
    cancelled_release_serves_waiter_of_own_client
}

async fn cancelled_acquisition_leaves_nothing<S: Subject>(world: &mut World) -> Result<Case> {
    let (lock, contender) = world.locks::<S>();
    Ok(Case::of(lock.acquire().into_future(), &contender))
}

async fn cancelled_waiter_behind_another_client_leaves_nothing<S: Subject>(
    world: &mut World,
) -> Result<Case> {
    let (lock, contender) = world.locks::<S>();
    world.hold(&contender).await?;
    Ok(Case::of(lock.acquire().into_future(), &contender))
}

async fn cancelled_waiter_behind_own_client_leaves_nothing<S: Subject>(
    world: &mut World,
) -> Result<Case> {
    let (lock, contender) = world.locks::<S>();
    world.hold(&S::Contender::new(&world.here[0], NAME)).await?;
    Ok(Case::of(lock.acquire().into_future(), &contender))
}

async fn cancelled_release_frees_name<S: Subject>(world: &mut World) -> Result<Case> {
    let (lock, contender) = world.locks::<S>();
    let guard = lock.acquire().await?;
    Ok(Case::of(Guard::release(guard), &contender))
}

async fn cancelled_release_serves_waiter_of_another_client<S: Subject>(
    world: &mut World,
) -> Result<Case> {
    let (lock, contender) = world.locks::<S>();
    let guard = lock.acquire().await?;
    world.queue(&contender).await;
    Ok(Case::of(Guard::release(guard), &contender))
}

async fn cancelled_release_serves_waiter_of_own_client<S: Subject>(
    world: &mut World,
) -> Result<Case> {
    let (lock, contender) = world.locks::<S>();
    let guard = lock.acquire().await?;
    world.queue(&S::Contender::new(&world.here[0], NAME)).await;
    Ok(Case::of(Guard::release(guard), &contender))
}

#[tokio::test(start_paused = true)]
async fn cancelled_poller_behind_another_client_leaves_nothing() -> Result<()> {
    at_every_poll(
        polling(),
        cancelled_waiter_behind_another_client_leaves_nothing::<Mutex>,
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_poller_behind_own_client_leaves_nothing() -> Result<()> {
    at_every_poll(
        polling(),
        cancelled_waiter_behind_own_client_leaves_nothing::<Mutex>,
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_release_wakes_poller_of_another_client() -> Result<()> {
    at_every_poll(
        polling(),
        cancelled_release_serves_waiter_of_another_client::<Mutex>,
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_release_wakes_poller_of_own_client() -> Result<()> {
    at_every_poll(
        polling(),
        cancelled_release_serves_waiter_of_own_client::<Mutex>,
    )
    .await
}

/// Several locks of this client as one, which take three scripts.
fn several(client: &Client) -> Result<MultiLock> {
    let mutexes = [NAME, "other", APART].map(|name| Mutex::new(client, name).target());
    let queue = FairLock::new(client, "queue").target();
    Ok(MultiLock::new(mutexes.into_iter().chain([queue]))?)
}

#[tokio::test(start_paused = true)]
async fn cancelled_acquisition_of_several_names_leaves_nothing() -> Result<()> {
    at_every_poll(Client::builder(), async |world: &mut World| {
        let (lock, contender) = (several(&world.here[0])?, several(&world.there[0])?);
        Ok(Case::of(lock.acquire().into_future(), &contender))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiter_for_one_of_several_names_leaves_nothing() -> Result<()> {
    for held in [NAME, APART] {
        at_every_poll(Client::builder(), async |world: &mut World| {
            world.hold(&Mutex::new(&world.there[0], held)).await?;
            let (lock, contender) = (several(&world.here[0])?, several(&world.there[0])?);
            Ok(Case::of(lock.acquire().into_future(), &contender))
        })
        .await
        .context(held)?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn cancelled_release_frees_several_names() -> Result<()> {
    at_every_poll(Client::builder(), async |world: &mut World| {
        let (lock, contender) = (several(&world.here[0])?, several(&world.there[0])?);
        let guard = lock.acquire().await?;
        Ok(Case::of(guard.release(), &contender))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_acquisition_of_redlock_leaves_nothing() -> Result<()> {
    at_every_poll(Client::builder(), async |world: &mut World| {
        let (lock, contender) = world.redlocks()?;
        Ok(Case::of(lock.acquire().into_future(), &contender))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiter_for_redlock_leaves_nothing() -> Result<()> {
    at_every_poll(Client::builder(), async |world: &mut World| {
        let (lock, contender) = world.redlocks()?;
        world.hold(&contender).await?;
        Ok(Case::of(lock.acquire().into_future(), &contender))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_release_frees_redlock() -> Result<()> {
    at_every_poll(Client::builder(), async |world: &mut World| {
        let (lock, contender) = world.redlocks()?;
        let guard = lock.acquire().await?;
        Ok(Case::of(guard.release(), &contender))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_nested_acquisition_keeps_outer_hold() -> Result<()> {
    at_every_poll(Client::builder(), async |world: &mut World| {
        let (lock, contender) = world.locks::<ReentrantLock>();
        let outer = lock.acquire().await?;
        let inner = lock.acquire().owner(&outer.owner());
        Ok(Case::of(inner.into_future(), &contender).inside(outer))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_nested_release_keeps_outer_hold() -> Result<()> {
    at_every_poll(Client::builder(), async |world: &mut World| {
        let (lock, contender) = world.locks::<ReentrantLock>();
        let outer = lock.acquire().await?;
        let inner = outer.reenter().await?;
        Ok(Case::of(inner.release(), &contender).inside(outer))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_upgrade_leaves_nothing() -> Result<()> {
    at_every_poll(Client::builder(), async |world: &mut World| {
        let (lock, contender) = world.locks::<Reader>();
        let guard = lock.acquire().await?;
        Ok(Case::of(guard.try_upgrade(), &contender))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn cancelled_downgrade_serves_waiting_reader() -> Result<()> {
    at_every_poll(Client::builder(), async |world: &mut World| {
        let (lock, contender) = world.locks::<Writer>();
        let guard = lock.acquire().await?;
        world
            .queue(&RwLock::new(&world.there[0], NAME).reader())
            .await;
        Ok(Case::of(guard.downgrade(), &contender))
    })
    .await
}
