//! The read-write lock: which claims hold together, which wait for which, and what the tokens mean.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Error, FencingToken, LeaseState, LossReason, ReadGuard, Released, RwLock, Upgrade,
};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::PATIENCE;
use tokio::task::{JoinHandle, JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

use crate::HOLDER;
use lockkeeper_tests::holder::Holder;

const TTL: Duration = Duration::from_secs(30);

/// So much shorter than a heartbeat that an earlier grant must have come by message.
const AT_ONCE: Duration = Duration::from_millis(100);

/// The same lock from two clients on one embedded engine.
pub(crate) async fn two() -> Result<(RwLock, RwLock)> {
    let store = MemoryStore::new();
    let lock = async || {
        anyhow::Ok(RwLock::new(
            &lockkeeper_tests::client(&store, TTL).await?,
            "name",
        ))
    };
    Ok((lock().await?, lock().await?))
}

/// Waits until this many claims are queued.
async fn queued(lock: &RwLock, number: u64) -> Result<()> {
    let all = async {
        while lock.queue_len().await? != number {
            yield_now().await;
        }
        anyhow::Ok(())
    };
    timeout(TTL, all).await?
}

/// A waiter to read, at this place in the queue.
async fn reader(lock: &RwLock, place: u64) -> Result<JoinHandle<lockkeeper::Result<ReadGuard>>> {
    let waiting = tokio::spawn(lock.read().into_future());
    queued(lock, place).await?;
    Ok(waiting)
}

#[tokio::test(start_paused = true)]
async fn readers_that_follow_one_another_are_let_in_together_up_to_the_next_writer() -> Result<()> {
    let (here, there) = two().await?;
    let writing = here.write().await?;
    let first = [reader(&here, 1).await?, reader(&there, 2).await?];
    let writer = tokio::spawn(there.write().into_future());
    queued(&here, 3).await?;
    let second = [reader(&there, 4).await?, reader(&here, 5).await?];
    writing.release().await?;
    let mut guards = Vec::new();
    for reader in first {
        guards.push(timeout(AT_ONCE, reader).await???);
    }
    ensure!(guards[0].fencing_token() == guards[1].fencing_token());
    ensure!(here.queue_len().await? == 3);
    for guard in guards {
        guard.release().await?;
    }
    let writing = timeout(AT_ONCE, writer).await???;
    let token = writing.fencing_token();
    writing.release().await?;
    for reader in second {
        ensure!(timeout(AT_ONCE, reader).await???.fencing_token() > token);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_writer_gets_in_after_the_readers_before_it_though_readers_come_without_pause()
-> Result<()> {
    let (here, there) = two().await?;
    let mut readers = JoinSet::new();
    for number in 0..8 {
        let lock = [&here, &there][number % 2].clone();
        readers.spawn(async move {
            loop {
                let guard = lock.read().await?;
                sleep(Duration::from_millis(7 + number as u64)).await;
                guard.release().await?;
            }
            #[expect(unreachable_code, reason = "it says what the task fails with")]
            anyhow::Ok(())
        });
    }
    for _ in 0..20 {
        sleep(Duration::from_millis(23)).await;
        let asked = Instant::now();
        let guard = here.write().wait_for(TTL).await?;
        // The longest lease of the present readers.
        ensure!(
            asked.elapsed() <= Duration::from_millis(15),
            "{:?}",
            asked.elapsed()
        );
        guard.release().await?;
    }
    ensure!(readers.try_join_next().is_none(), "a reader has failed");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_in_after_the_writers_before_it_though_writers_come_without_pause()
-> Result<()> {
    let (here, there) = two().await?;
    let mut writers = JoinSet::new();
    for number in 0..4 {
        let lock = [&here, &there][number % 2].clone();
        writers.spawn(async move {
            loop {
                let guard = lock.write().await?;
                sleep(Duration::from_millis(10)).await;
                guard.release().await?;
            }
            #[expect(unreachable_code, reason = "it says what the task fails with")]
            anyhow::Ok(())
        });
    }
    for _ in 0..20 {
        sleep(Duration::from_millis(23)).await;
        let asked = Instant::now();
        let guard = here.read().wait_for(TTL).await?;
        ensure!(
            asked.elapsed() <= Duration::from_millis(40),
            "{:?}",
            asked.elapsed()
        );
        guard.release().await?;
    }
    ensure!(writers.try_join_next().is_none(), "a writer has failed");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_reads_reads_again_past_a_waiting_writer() -> Result<()> {
    let (here, there) = two().await?;
    let outer = here.read().await?;
    let writer = tokio::spawn(there.write().into_future());
    queued(&here, 1).await?;
    let inner = outer.reenter().await?;
    // Also through another client, which knows the owner by its text.
    let owner = outer.owner().to_string().parse()?;
    let third = there.read().owner(&owner).wait_for(AT_ONCE).await?;
    for guard in [&inner, &third] {
        ensure!(guard.fencing_token() == outer.fencing_token());
    }
    ensure!(outer.release().await? == Released::StillHeld(2));
    ensure!(inner.release().await? == Released::StillHeld(1));
    ensure!(!writer.is_finished());
    ensure!(third.release().await? == Released::Free);
    timeout(AT_ONCE, writer).await???.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn to_write_inside_its_own_read_would_deadlock_and_is_refused_at_once() -> Result<()> {
    let (here, there) = two().await?;
    let reading = here.read().await?;
    let _other = there.read().await?;
    let owner = reading.owner();
    let refused = here.write().owner(&owner).await;
    ensure!(
        matches!(refused, Err(Error::WouldDeadlock { .. })),
        "{refused:?}"
    );
    let refused = there.try_write().owner(&owner).await;
    ensure!(
        matches!(refused, Err(Error::WouldDeadlock { .. })),
        "{refused:?}"
    );
    ensure!(here.queue_len().await? == 0, "nothing is left in the queue");
    reading.ensure_held()?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_read_that_outlives_the_write_around_it_lets_readers_in_with_a_larger_token() -> Result<()>
{
    let (here, there) = two().await?;
    let writing = here.write().await?;
    let inside = writing.read().await?;
    let token = writing.fencing_token();
    let waiting = reader(&there, 1).await?;
    ensure!(writing.release().await? == Released::StillHeld(1));
    let late = timeout(AT_ONCE, waiting).await???;
    // Otherwise a resource could not distinguish the writer, if it is only paused, from later readers.
    ensure!(late.fencing_token() > token && inside.fencing_token() == token);
    let again = inside.reenter().await?;
    ensure!(again.fencing_token() == token);
    let joined = there.read().await?;
    ensure!(joined.fencing_token() == late.fencing_token());
    sleep(2 * TTL).await;
    for guard in [&inside, &again, &late, &joined] {
        guard.verify().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_short_read_lease_never_shortens_the_write_around_it() -> Result<()> {
    let store = MemoryStore::new();
    let lock = RwLock::new(&lockkeeper_tests::client(&store, TTL).await?, "name");
    let minute = Duration::from_secs(60);
    let writing = lock.write().ttl(minute).no_renewal().await?;
    let owner = writing.owner();
    let second = Duration::from_secs(1);
    let inside = lock.read().owner(&owner).ttl(second).no_renewal().await?;
    let again = lock.write().owner(&owner).ttl(second).no_renewal().await?;
    inside.release().await?;
    again.release().await?;
    let brief = lock.read().owner(&owner).ttl(second).no_renewal().await?;
    ensure!(brief.lost().await.reason == LossReason::Expired);
    let left: u64 = store.command(&["PTTL", "lockkeeper:name"]).await?.parse()?;
    ensure!(left > 55_000, "{left} ms");
    writing.verify().await?;
    ensure!(lock.try_read().await?.is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_reader_has_a_lease_of_its_own() -> Result<()> {
    let (here, there) = two().await?;
    let brief = here.read().ttl(Duration::from_secs(2)).no_renewal().await?;
    let renewed = there.read().ttl(Duration::from_secs(2)).await?;
    ensure!(brief.lost().await.reason == LossReason::Expired);
    sleep(Duration::from_secs(20)).await;
    renewed.verify().await?;
    ensure!(here.try_write().await?.is_none());
    renewed.release().await?;
    ensure!(
        here.try_write().await?.is_some(),
        "who has died keeps nobody out"
    );
    Ok(())
}

#[tokio::test]
async fn a_reader_killed_on_the_spot_lets_the_writer_in_after_its_own_ttl() -> Result<()> {
    let server = Server::start().await?;
    // Renewed every second, and not lost on a slow machine.
    let settings = lockkeeper_tests::patient()
        .ttl(PATIENCE)
        .renewal_fraction(100);
    let client = server.client(settings).await?;
    let lock = RwLock::new(&client, "name");
    let mut killed = Holder::start(HOLDER, &["read", &server.url(), "name", "1000"])?;
    ensure!(killed.line().await?.starts_with("held "));
    let living = lock.read().await?;
    let writer = tokio::spawn(lock.write().into_future());
    killed.kill().await?;
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        living.verify().await.context("the other reads on")?;
    }
    ensure!(!writer.is_finished());
    living.release().await?;
    let written = timeout(PATIENCE, writer).await???;
    written.release().await?;
    Ok(())
}

/// A resource that refuses tokens smaller than the largest it has seen.
struct Resource(FencingToken);

impl Resource {
    fn takes(&mut self, token: FencingToken) -> bool {
        let taken = token >= self.0;
        self.0 = self.0.max(token);
        taken
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_wakes_after_others_have_read_is_refused_by_its_token() -> Result<()> {
    let (here, there) = two().await?;
    let paused = here
        .write()
        .ttl(Duration::from_secs(1))
        .no_renewal()
        .await?;
    let mut resource = Resource(paused.fencing_token());
    ensure!(resource.takes(paused.fencing_token()));
    paused.lost().await;
    let reading = there.read().wait_for(TTL).await?;
    ensure!(resource.takes(reading.fencing_token()));
    ensure!(
        !resource.takes(paused.fencing_token()),
        "others have read since"
    );
    // The same for a reader that wakes after a write: what it would write back is stale.
    let stale = reading.fencing_token();
    reading.release().await?;
    let writing = here.write().await?;
    ensure!(resource.takes(writing.fencing_token()));
    ensure!(!resource.takes(stale));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn inspection_shows_who_reads_and_who_writes() -> Result<()> {
    let store = MemoryStore::new();
    let client = lockkeeper_tests::client(&store, TTL).await?;
    let lock = RwLock::new(&client, "name");
    let readers = [lock.read().await?, lock.read().await?];
    let waiting = tokio::spawn(lock.write().into_future());
    queued(&lock, 1).await?;
    let seen = client.inspect("name").await?;
    ensure!(seen.kind.as_deref() == Some("rwlock") && seen.waiters == Some(1));
    ensure!(seen.token == Some(readers[0].fencing_token()));
    ensure!(seen.holders.len() == 2 && seen.holders.iter().all(|holder| holder.shared));
    drop(readers);
    let writing = waiting.await??;
    let inside = writing.read().await?;
    let seen = client.inspect("name").await?;
    ensure!(seen.token == Some(writing.fencing_token()));
    let shared = seen.holders.iter().filter(|holder| holder.shared).count();
    ensure!(seen.holders.len() == 2 && shared == 1, "{seen:?}");
    drop((inside, writing));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_thousand_readers_come_in_as_one_writer_leaves() -> Result<()> {
    let (here, there) = two().await?;
    let writing = here.write().await?;
    let mut readers = JoinSet::new();
    for number in 0..1_000 {
        let lock = [&here, &there][number % 2].clone();
        readers.spawn(async move { lock.read().await });
    }
    queued(&here, 1_000).await?;
    writing.release().await?;
    let all = timeout(AT_ONCE, readers.join_all()).await?;
    let guards = all.into_iter().collect::<lockkeeper::Result<Vec<_>>>()?;
    ensure!(
        guards
            .iter()
            .all(|guard| guard.fencing_token() == guards[0].fencing_token())
    );
    sleep(2 * TTL).await;
    ensure!(guards.iter().all(|guard| guard.state() == LeaseState::Held));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn bounds_of_holding_go_over_to_what_takes_the_guards_place() -> Result<()> {
    let (here, there) = two().await?;
    let second = Duration::from_secs(1);
    let writing = here.write().max_hold(5 * second).await?;
    sleep(3 * second).await;
    let reading = writing.downgrade().await?;
    let begun = Instant::now();
    ensure!(reading.lost().await.reason == LossReason::MaxHold);
    ensure!(
        begun.elapsed() <= 2 * second + AT_ONCE,
        "{:?}",
        begun.elapsed()
    );
    drop(reading);
    let reading = there.read().min_hold(5 * second).await?;
    sleep(second).await;
    let Upgrade::Write(writing) = reading.try_upgrade().await? else {
        anyhow::bail!("nobody else reads")
    };
    let released = writing.release().await?;
    ensure!(
        matches!(released, Released::Kept(left) if left > 3 * second),
        "{released:?}"
    );
    ensure!(here.try_read().await?.is_none());
    Ok(())
}
