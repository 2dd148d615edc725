//! The holder knows: whatever happens to the server, validity ends in time and with the right reason.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Error, LeaseState, LossReason, Mutex, MutexGuard};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::patient;
use tokio::time::{Instant, sleep, sleep_until, timeout};

const TTL: Duration = Duration::from_millis(900);

async fn held(server: &Server) -> Result<MutexGuard> {
    let client = lockkeeper::connect(&server.url()).await?;
    let lock = Mutex::new(&client, "name");
    Ok(lock.acquire().ttl(TTL).wait_for(PATIENCE).await?)
}

/// A lease that lasts for longer than a test waits, and is renewed about once a second.
async fn long_held(server: &Server) -> Result<MutexGuard> {
    let settings = patient().ttl(PATIENCE).renewal_fraction(100);
    let client = server.client(settings.request_timeout(TTL)).await?;
    Ok(Mutex::new(&client, "name").acquire().await?)
}

/// Waits for the loss. Returns how long after a timer for the deadline it came.
async fn lateness(guard: &MutexGuard) -> Result<Duration> {
    let lost = guard.lost();
    let lost = tokio::spawn(async { (lost.await.reason, Instant::now()) });
    // A renewal in flight may still be answered and move the deadline.
    let timer = loop {
        sleep_until(Instant::now() + guard.remaining()).await;
        let now = Instant::now();
        if guard.remaining().is_zero() {
            break now;
        }
    };
    let (reason, at) = timeout(PATIENCE, lost).await??;
    let late = at.saturating_duration_since(timer);
    ensure!(reason == LossReason::Expired, "{reason:?}");
    ensure!(guard.state() == LeaseState::Lost(LossReason::Expired));
    ensure!(matches!(
        guard.ensure_held(),
        Err(Error::Lost {
            reason: LossReason::Expired,
            ..
        })
    ));
    Ok(late)
}

/// The best of five attempts: between timer and loss the machine may do something else, but a wrong design is always late.
async fn least_lateness(meddle: impl Fn(&mut Server) -> Result<()>) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let mut server = Server::start().await?;
        let guard = held(&server).await?;
        meddle(&mut server)?;
        least = least.min(lateness(&guard).await?);
    }
    Ok(least)
}

#[tokio::test]
async fn a_frozen_server_is_noticed_within_two_milliseconds_of_a_timer_for_the_deadline()
-> Result<()> {
    let late = least_lateness(|server| server.freeze()).await?;
    ensure!(
        late <= Duration::from_millis(2),
        "noticed {late:?} after the deadline"
    );
    Ok(())
}

#[tokio::test]
async fn a_killed_server_is_noticed_within_two_milliseconds_of_a_timer_for_the_deadline()
-> Result<()> {
    let late = least_lateness(|server| server.kill()).await?;
    ensure!(
        late <= Duration::from_millis(2),
        "noticed {late:?} after the deadline"
    );
    Ok(())
}

#[tokio::test]
async fn the_state_is_right_even_if_no_task_could_run() -> Result<()> {
    let server = Server::start().await?;
    let guard = held(&server).await?;
    // Blocks the only thread: no renewal and no timer runs.
    std::thread::sleep(TTL);
    ensure!(guard.state() == LeaseState::Lost(LossReason::Expired));
    ensure!(guard.remaining() == Duration::ZERO && guard.ensure_held().is_err());
    Ok(())
}

#[tokio::test]
async fn run_gives_no_result_of_work_that_blocked_past_the_deadline() -> Result<()> {
    let server = Server::start().await?;
    let guard = held(&server).await?;
    let output = guard.run(async { std::thread::sleep(TTL) }).await;
    ensure!(matches!(output, Err(Error::Lost { .. })), "{output:?}");
    Ok(())
}

#[tokio::test]
async fn work_under_a_frozen_server_is_stopped() -> Result<()> {
    let server = Server::start().await?;
    let client = server
        .client(patient().release_timeout(PATIENCE * 2))
        .await?;
    let lock = Mutex::new(&client, "name");
    let guard = lock.acquire().ttl(TTL).wait_for(PATIENCE).await?;
    server.freeze()?;
    let stopped = timeout(PATIENCE, guard.run(std::future::pending::<()>())).await?;
    ensure!(matches!(stopped, Err(Error::Lost { .. })));
    let released = timeout(PATIENCE, guard.release()).await;
    let released = released.context("a lost lease is waited for")?;
    ensure!(matches!(released, Err(Error::Lost { .. })));
    Ok(())
}

#[tokio::test]
async fn a_server_that_lost_its_data_is_noticed_by_the_next_renewal() -> Result<()> {
    let server = Server::start().await?;
    let guard = long_held(&server).await?;
    server.command(&["FLUSHALL"]).await?;
    ensure!(guard.lost().await.reason == LossReason::Gone);
    Ok(())
}

#[tokio::test]
async fn a_short_freeze_makes_a_lease_uncertain_and_does_not_lose_it() -> Result<()> {
    let server = Server::start().await?;
    let guard = long_held(&server).await?;
    server.freeze()?;
    while guard.state() == LeaseState::Held {
        sleep(Duration::from_millis(5)).await;
    }
    ensure!(guard.state() == LeaseState::Uncertain);
    guard.ensure_held()?;
    server.thaw()?;
    while guard.state() == LeaseState::Uncertain {
        sleep(Duration::from_millis(5)).await;
    }
    ensure!(guard.state() == LeaseState::Held);
    guard.release().await?;
    Ok(())
}
