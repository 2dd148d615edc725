//! Failover to a primary that lacks the last writes: what is lost with them, and what is not.

use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;
use lockkeeper::{
    Client, FairLock, Guard, LeaseState, Lock as _, Mutex, Reader, ReentrantLock, RwLock,
    Semaphore, Writer,
};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::subject::Subject;
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(10);
const SEED: u64 = 0xFA11;

async fn client(server: &MemoryStore) -> Result<Client> {
    server.client(Client::builder().ttl(TTL)).await
}

/// The token of a grant to a client that knows no earlier grant; released at once.
async fn token_of_a_stranger<S: Subject>(server: &MemoryStore) -> Result<u64> {
    let client = client(server).await?;
    let guard = S::new(&client, "name").acquire().await?;
    let token = guard.fencing_token().get();
    Guard::release(guard).await?;
    client.close().await;
    Ok(token)
}

fn milliseconds(time: Duration) -> Result<i64> {
    Ok(i64::try_from(time.as_millis())?)
}

/// Fails over to a primary that lacks the last grant. Returns the token of that grant and of the next one.
async fn fail_over<S: Subject>(took: Duration, behind: Duration) -> Result<(u64, u64)> {
    let server = MemoryStore::new();
    token_of_a_stranger::<S::Contender>(&server).await?;
    let replica = server.snapshot();
    sleep(Duration::from_secs(1)).await;
    let last = token_of_a_stranger::<S::Contender>(&server).await?;
    sleep(took).await;
    server.restore(&replica);
    server.step_clock(-milliseconds(behind)?);
    Ok((last, token_of_a_stranger::<S>(&server).await?))
}

async fn tokens_increase<S: Subject>() -> Result<()> {
    for number in 0..200 {
        let seed = SEED + number;
        let mut random = Rng::with_seed(seed);
        let took = random.u64(2..60_000);
        let behind = random.u64(0..took);
        let (took, behind) = (Duration::from_millis(took), Duration::from_millis(behind));
        let (last, next) = fail_over::<S>(took, behind).await?;
        ensure!(
            next > last,
            "seed {seed}: {next} after {last}; the failover took {took:?}, and the clock was {behind:?} behind"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn tokens_increase_over_a_failover_to_a_clock_behind_by_less_than_it_took() -> Result<()> {
    tokens_increase::<Mutex>().await?;
    tokens_increase::<ReentrantLock>().await?;
    tokens_increase::<FairLock>().await?;
    tokens_increase::<Writer>().await?;
    tokens_increase::<Reader>().await?;
    tokens_increase::<Semaphore>().await
}

async fn tokens_go_back<S: Subject>() -> Result<()> {
    let (took, more) = (Duration::from_secs(3), Duration::from_millis(100));
    let (last, next) = fail_over::<S>(took, took + more).await?;
    ensure!(next < last, "{next} after {last}: is more promised now?");
    Ok(())
}

/// The counter-example for something that is not promised.
#[tokio::test(start_paused = true)]
async fn tokens_go_back_over_a_failover_to_a_clock_behind_by_more_than_it_took() -> Result<()> {
    tokens_go_back::<Mutex>().await?;
    tokens_go_back::<ReentrantLock>().await?;
    tokens_go_back::<FairLock>().await?;
    tokens_go_back::<Writer>().await?;
    tokens_go_back::<Reader>().await?;
    tokens_go_back::<Semaphore>().await
}

/// The counter-example for something that is not promised: the new primary remembers a reader that has released, and lacks the
/// writer since then.
#[tokio::test(start_paused = true)]
async fn whoever_reads_beside_readers_that_a_failover_brought_back_has_their_old_token()
-> Result<()> {
    let server = MemoryStore::new();
    let first = RwLock::new(&client(&server).await?, "name");
    let writer = RwLock::new(&client(&server).await?, "name");
    let late = RwLock::new(&client(&server).await?, "name");
    let gone = first.read().await?;
    let replica = server.snapshot();
    let old = gone.fencing_token();
    gone.release().await?;
    sleep(Duration::from_secs(1)).await;
    let written = writer.write().await?;
    let lost = written.fencing_token();
    written.release().await?;
    server.restore(&replica);
    let guard = late.read().await?;
    ensure!(guard.fencing_token() == old && old < lost, "{guard:?}");
    // Only while others read beside it: a fresh start gets a token above all.
    guard.release().await?;
    sleep(TTL).await;
    ensure!(late.read().await?.fencing_token() > lost);
    Ok(())
}

/// The same for an owner that re-enters.
#[tokio::test(start_paused = true)]
async fn an_owner_that_comes_back_to_a_hold_that_a_failover_brought_back_has_its_old_token()
-> Result<()> {
    let server = MemoryStore::new();
    let (one, another) = (client(&server).await?, client(&server).await?);
    let owner = one.new_owner();
    let lock = ReentrantLock::new(&one, "name");
    let gone = lock.acquire().owner(&owner).await?;
    let replica = server.snapshot();
    let old = gone.fencing_token();
    gone.release().await?;
    sleep(Duration::from_secs(1)).await;
    let between = ReentrantLock::new(&another, "name");
    let guard = between.acquire().owner(&another.new_owner()).await?;
    let lost = guard.fencing_token();
    guard.release().await?;
    server.restore(&replica);
    let guard = lock.acquire().owner(&owner).await?;
    ensure!(guard.fencing_token() == old && old < lost, "{guard:?}");
    guard.release().await?;
    sleep(TTL).await;
    ensure!(lock.acquire().owner(&owner).await?.fencing_token() > lost);
    Ok(())
}

async fn two_hold<S: Subject>() -> Result<()> {
    let server = MemoryStore::new();
    let replica = server.snapshot();
    let (before, after) = (client(&server).await?, client(&server).await?);
    let held = S::new(&before, "name").acquire().await?;
    sleep(Duration::from_millis(1)).await;
    server.restore(&replica);
    let other = S::Contender::new(&after, "name").acquire().await?;
    ensure!(
        held.ensure_held().is_ok() && other.ensure_held().is_ok(),
        "{:?} and {:?}",
        held.state(),
        other.state()
    );
    ensure!(other.fencing_token() > held.fencing_token());
    // The next renewal tells the holder that was forgotten, within a ttl.
    let told = tokio::time::timeout(TTL, held.lost()).await;
    ensure!(told.is_ok(), "it counts as held after a ttl");
    ensure!(other.state() == LeaseState::Held);
    Ok(())
}

/// The counter-example for something that is not promised.
#[tokio::test(start_paused = true)]
async fn two_hold_after_a_failover_that_lost_a_grant_and_for_a_ttl_at_most() -> Result<()> {
    two_hold::<Mutex>().await?;
    two_hold::<ReentrantLock>().await?;
    two_hold::<FairLock>().await?;
    two_hold::<Writer>().await?;
    two_hold::<Reader>().await?;
    two_hold::<Semaphore>().await
}
