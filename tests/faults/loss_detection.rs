//! The holder knows: whatever happens to the server, validity ends in time and with the right reason.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lockkeeper::{Error, LeaseState, LossReason, Mutex, MutexGuard};
use lockkeeper_testkit::server::Server;

const TTL: Duration = Duration::from_millis(900);

async fn held(server: &Server) -> Result<MutexGuard> {
    let client = lockkeeper::connect(&server.url()).await?;
    Ok(Mutex::new(&client, "name").acquire().ttl(TTL).await?)
}

/// Waits for the loss. Returns how late it came after the deadline, which renewals no longer move.
async fn lateness(guard: &MutexGuard) -> Result<Duration> {
    // A renewal in flight may still be answered; after a request timeout the deadline is final.
    let mut deadline = Instant::now() + guard.remaining();
    let mut lost = guard.lost();
    let reason = loop {
        tokio::select! {
            biased;
            lost = &mut lost => break lost.reason,
            () = tokio::time::sleep(Duration::from_millis(1)) => deadline = Instant::now() + guard.remaining(),
        }
    };
    let late = Instant::now().saturating_duration_since(deadline);
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

/// The best of five attempts: a busy machine can be late, but a wrong design always is.
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
async fn a_frozen_server_is_noticed_within_two_milliseconds_of_the_deadline() -> Result<()> {
    let late = least_lateness(|server| server.freeze()).await?;
    ensure!(
        late <= Duration::from_millis(2),
        "noticed {late:?} after the deadline"
    );
    Ok(())
}

#[tokio::test]
async fn a_killed_server_is_noticed_within_two_milliseconds_of_the_deadline() -> Result<()> {
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
    let guard = held(&server).await?;
    server.freeze()?;
    let begun = Instant::now();
    let stopped = guard.run(std::future::pending::<()>()).await;
    ensure!(matches!(stopped, Err(Error::Lost { .. })));
    ensure!(
        begun.elapsed() < TTL + Duration::from_millis(100),
        "{:?}",
        begun.elapsed()
    );
    let released = Instant::now();
    ensure!(matches!(guard.release().await, Err(Error::Lost { .. })));
    ensure!(
        released.elapsed() < Duration::from_millis(100),
        "a lost lease is not waited for"
    );
    Ok(())
}

#[tokio::test]
async fn a_server_that_lost_its_data_is_noticed_by_the_next_renewal() -> Result<()> {
    let server = Server::start().await?;
    let guard = held(&server).await?;
    server.command(&["FLUSHALL"]).await?;
    let begun = Instant::now();
    ensure!(guard.lost().await.reason == LossReason::Gone);
    ensure!(begun.elapsed() < TTL / 2, "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_short_freeze_makes_a_lease_uncertain_and_does_not_lose_it() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let guard = Mutex::new(&client, "name")
        .acquire()
        .ttl(Duration::from_secs(6))
        .await?;
    server.freeze()?;
    while guard.state() == LeaseState::Held {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ensure!(guard.state() == LeaseState::Uncertain);
    guard.ensure_held()?;
    server.thaw()?;
    while guard.state() == LeaseState::Uncertain {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ensure!(guard.state() == LeaseState::Held);
    guard.release().await?;
    Ok(())
}
