//! The semaphore: a limited number of permits at a time, arrival order, and a limit that all clients share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, Error, LeaseEvent, MultiLock, Mutex, Observed, Observer, Semaphore};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::HOLDER;
use lockkeeper_tests::holder::Holder;
use lockkeeper_tests::{client, patient, until};

const TTL: Duration = Duration::from_secs(30);

/// Waits until this many claims are queued.
async fn queued(semaphore: &Semaphore, number: u64) -> Result<()> {
    until(async || Ok(semaphore.state().await?.map_or(0, |it| it.waiters) == number)).await
}

/// Lets it wait for its permits at this place in the queue.
async fn waiting(
    semaphore: &Semaphore,
    number: u64,
) -> Result<JoinHandle<lockkeeper::Result<lockkeeper::SemaphoreGuard>>> {
    let waiting = tokio::spawn(semaphore.acquire().into_future());
    queued(semaphore, number).await?;
    Ok(waiting)
}

/// Tasks of three clients take one to three permits of five, over and over.
async fn crowd(site: &impl Site) -> Result<()> {
    const LIMIT: u32 = 5;
    let inside = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let semaphore = Semaphore::new(&site.client(patient()).await?, "name", LIMIT);
        for task in 0..8 {
            let permits = 1 + task % 3;
            let semaphore = semaphore.permits(permits);
            let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
            tasks.spawn(async move {
                for _ in 0..10 {
                    let guard = semaphore.acquire().await?;
                    let now = inside.fetch_add(permits, Ordering::SeqCst) + permits;
                    most.fetch_max(now, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    guard.ensure_held()?;
                    inside.fetch_sub(permits, Ordering::SeqCst);
                    guard.release().await?;
                }
                anyhow::Ok(())
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let most = most.load(Ordering::SeqCst);
    ensure!((2..=LIMIT).contains(&most), "{most} permits at once");
    let semaphore = Semaphore::new(&site.client(patient()).await?, "name", LIMIT);
    ensure!(semaphore.available().await? == LIMIT);
    ensure!(semaphore.state().await?.is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn at_most_the_limit_is_held() -> Result<()> {
    crowd(&MemoryStore::new()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_the_limit_is_held_on_a_server() -> Result<()> {
    crowd(&Server::start().await?).await
}

/// Counts reports of another limit, and keeps the last one.
#[derive(Debug, Default)]
struct Limits {
    told: AtomicU32,
    last: AtomicU32,
}

impl Observer for Limits {
    fn on_lease(&self, _: &Observed<'_>, _: &str, event: LeaseEvent) {
        if let LeaseEvent::OtherLimit { limit, .. } = event {
            self.told.fetch_add(1, Ordering::SeqCst);
            self.last.store(limit, Ordering::SeqCst);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_those_who_hold_stands_and_others_are_told_once() -> Result<()> {
    let server = MemoryStore::new();
    let limits = Arc::new(Limits::default());
    let of_two = Semaphore::new(&client(&server, TTL).await?, "name", 2);
    let settings = Client::builder().observer(Arc::clone(&limits) as Arc<dyn Observer>);
    let of_five = Semaphore::new(&server.client(settings).await?, "name", 5);
    let told = || {
        let (told, last) = (&limits.told, &limits.last);
        (told.load(Ordering::SeqCst), last.load(Ordering::SeqCst))
    };
    let first = of_two.acquire().await?;
    let second = of_five.acquire().await?;
    ensure!(told() == (1, 2), "{:?}", told());
    ensure!(of_five.available().await? == 0);
    let third = waiting(&of_five, 1).await?;
    ensure!(told() == (1, 2), "{:?}", told());
    let refused = of_five.permits(3).acquire().await;
    ensure!(
        matches!(refused, Err(Error::OverLimit { limit: 2, .. })),
        "{refused:?}"
    );
    let refused = of_five.permits(3).try_acquire().await;
    ensure!(
        matches!(refused, Err(Error::OverLimit { limit: 2, .. })),
        "{refused:?}"
    );
    // A new limit is reported again.
    ensure!(of_two.set_limit(3).await?);
    let third = timeout(PATIENCE, third).await???;
    let fourth = waiting(&of_five, 1).await?;
    ensure!(told() == (2, 3), "{:?}", told());
    fourth.abort();
    queued(&of_five, 0).await?;
    for guard in [first, second, third] {
        guard.release().await?;
    }
    let five = of_five.permits(5).acquire().await?;
    ensure!(of_two.available().await? == 0);
    five.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lowered_limit_takes_nothing_from_those_who_hold() -> Result<()> {
    let server = MemoryStore::new();
    let semaphore = Semaphore::new(&client(&server, TTL).await?, "name", 4);
    let held = semaphore.permits(2).acquire().await?;
    let other = semaphore.permits(2).acquire().await?;
    let four = waiting(&semaphore.permits(4), 1).await?;
    let one = waiting(&semaphore, 2).await?;
    ensure!(semaphore.set_limit(2).await?);
    // This one can never be granted now, and must not block the others.
    let four = timeout(PATIENCE, four).await??;
    ensure!(
        matches!(four, Err(Error::OverLimit { limit: 2, .. })),
        "{four:?}"
    );
    sleep(TTL * 3).await;
    held.ensure_held()?;
    other.ensure_held()?;
    ensure!(!one.is_finished());
    held.release().await?;
    sleep(TTL).await;
    ensure!(!one.is_finished());
    other.release().await?;
    let one = timeout(PATIENCE, one).await???;
    ensure!(semaphore.available().await? == 1);
    one.release().await?;
    Ok(())
}

/// Two processes: an old version with a limit of five and a new one with eight.
#[tokio::test]
async fn a_rolling_deploy_changes_the_limit_and_back() -> Result<()> {
    let server = Server::start().await?;
    let seen = Semaphore::new(&server.client(patient()).await?, "name", 1);
    let mut old = Holder::start(HOLDER, &["permits", &server.url(), "name", "5"])?;
    for held in 1..=5 {
        ensure!(old.tell("acquire").await? == format!("held {held}"));
    }
    ensure!(old.tell("acquire").await? == "busy");
    let mut new = Holder::start(HOLDER, &["permits", &server.url(), "name", "8"])?;
    ensure!(new.tell("acquire").await? == "busy");
    ensure!(new.tell("limit 8").await? == "set");
    for held in 1..=3 {
        ensure!(new.tell("acquire").await? == format!("held {held}"));
    }
    // The old version follows the new limit.
    ensure!(old.tell("release").await? == "held 4");
    ensure!(old.tell("acquire").await? == "held 5");
    for who in [&mut old, &mut new] {
        ensure!(who.tell("acquire").await? == "busy");
    }
    // And back: no holder loses its permits.
    ensure!(old.tell("limit 5").await? == "set");
    let state = seen.state().await?.context("it is held")?;
    ensure!((state.limit, state.held) == (5, 8), "{state:?}");
    for held in (0..3).rev() {
        ensure!(old.tell("acquire").await? == "busy");
        ensure!(new.tell("release").await? == format!("held {held}"));
    }
    ensure!(new.tell("acquire").await? == "busy");
    ensure!(old.tell("release").await? == "held 4");
    ensure!(new.tell("acquire").await? == "held 1");
    // Without any holder, the limit is the next client's.
    ensure!(new.tell("release").await? == "held 0");
    for held in (0..4).rev() {
        ensure!(old.tell("release").await? == format!("held {held}"));
    }
    ensure!(new.tell("limit 6").await? == "nobody");
    for held in 1..=8 {
        ensure!(new.tell("acquire").await? == format!("held {held}"));
    }
    ensure!(new.tell("acquire").await? == "busy");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn numbers_that_mean_nothing_are_refused_before_anything_is_sent() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let semaphore = Semaphore::new(&client, "name", 3);
    for (bad, word) in [
        (Semaphore::new(&client, "name", 0), "limit"),
        (Semaphore::new(&client, "name", 0).permits(1), "limit"),
        (semaphore.permits(0), "permit"),
        (semaphore.permits(4), "limit of 3"),
        (Semaphore::new(&client, "a{b", 3), "a{b"),
    ] {
        let refused = bad.acquire().await.err();
        ensure!(matches!(refused, Some(Error::Config { .. })), "{refused:?}");
        let text = refused.context("it is refused")?.to_string();
        ensure!(text.contains(word), "{text}");
        ensure!(bad.try_acquire().await.is_err());
        ensure!(bad.available().await.is_err());
    }
    ensure!(matches!(
        semaphore.set_limit(0).await,
        Err(Error::Config { .. })
    ));
    ensure!(matches!(
        Mutex::new(&client, "name").target().permits(None).await,
        Err(Error::Config { .. })
    ));
    ensure!(server.keys().is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn its_permits_are_seen_and_another_kind_is_told_apart() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let semaphore = Semaphore::new(&client, "name", 4);
    let _two = semaphore.permits(2).acquire().await?;
    let seen = client.inspect("name").await?;
    ensure!(
        seen.kind.as_deref() == Some("semaphore") && seen.limit == Some(4),
        "{seen:?}"
    );
    ensure!(
        seen.holders[0].permits == Some(2) && seen.holders[0].shared,
        "{seen:?}"
    );
    let _one = semaphore.acquire().await?;
    let seen = client.inspect("name").await?;
    let mut permits: Vec<_> = seen.holders.iter().map(|holder| holder.permits).collect();
    permits.sort();
    ensure!(
        permits == [Some(1), Some(2)] && seen.limit == Some(4),
        "{seen:?}"
    );
    let other = Mutex::new(&client, "name").acquire().await;
    ensure!(matches!(other, Err(Error::WrongKind { .. })), "{other:?}");
    let _mutex = Mutex::new(&client, "mutex").acquire().await?;
    let other = Semaphore::new(&client, "mutex", 2);
    ensure!(matches!(
        other.acquire().await,
        Err(Error::WrongKind { .. })
    ));
    ensure!(matches!(
        other.available().await,
        Err(Error::WrongKind { .. })
    ));
    ensure!(matches!(
        other.set_limit(3).await,
        Err(Error::WrongKind { .. })
    ));
    ensure!(client.inspect("mutex").await?.limit.is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn permits_are_taken_together_with_other_locks() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let semaphore = Semaphore::new(&client, "permits", 3);
    let mutex = Mutex::new(&client, "mutex");
    let both = MultiLock::new([semaphore.permits(2).target(), mutex.target()])?;
    let guard = both.acquire().await?;
    ensure!(semaphore.available().await? == 1);
    ensure!(mutex.try_acquire().await?.is_none());
    ensure!(both.try_acquire().await?.is_none());
    ensure!(semaphore.available().await? == 1);
    guard.release().await?;
    ensure!(semaphore.available().await? == 3);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_place_in_the_queue_is_known_and_a_full_queue_is_told() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let (semaphore, owner) = (Semaphore::new(&client, "name", 1), client.new_owner());
    let guard = semaphore.acquire().await?;
    let first = waiting(&semaphore, 1).await?;
    let second = semaphore.acquire().owner(&owner).max_queue(2);
    let second = tokio::spawn(second.into_future());
    queued(&semaphore, 2).await?;
    ensure!(semaphore.position(&owner).await? == Some(2));
    ensure!(semaphore.position(&guard.owner()).await?.is_none());
    let error = semaphore.acquire().max_queue(2).await.err();
    let full = matches!(error, Some(Error::QueueFull { length: 2, .. }));
    ensure!(full, "{error:?}");
    guard.release().await?;
    timeout(PATIENCE, first).await???.release().await?;
    timeout(PATIENCE, second).await???.release().await?;
    Ok(())
}
