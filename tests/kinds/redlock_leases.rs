//! What the holder of a Redlock knows about its lease, and how it releases, on embedded servers with paused time.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Error, LeaseState, LossReason, Released};
use lockkeeper_lua::{lock, redlock};
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_tests::majority::{MAIN, Servers, TTL};
use tokio::time::{Instant, sleep, timeout};

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_two_servers_and_is_lost_with_the_third() -> Result<()> {
    let servers = Servers::five();
    let process = servers.process()?;
    let guard = process.acquired().await?;
    process.lose(&[0, 1]);
    sleep(TTL * 3).await;
    ensure!(guard.state() == LeaseState::Held && guard.valid_parts() == 3);
    process.lose(&[2]);
    let lost = timeout(TTL, guard.ended()).await?;
    ensure!(lost.reason() == Some(LossReason::Expired), "{lost:?}");
    ensure!(matches!(guard.ensure_held(), Err(Error::Lost { .. })));
    // The rest of it is not renewed, although the guard lives.
    sleep(TTL * 2).await;
    ensure!(servers.held() == 0);
    ensure!(matches!(guard.release().await, Err(Error::Lost { .. })));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn validity_ends_before_a_majority_of_parts_does() -> Result<()> {
    let servers = Servers::five();
    let process = servers.process()?;
    let guard = process.lock.acquire().no_renewal().await?;
    let remaining = guard.remaining();
    ensure!(remaining < TTL && remaining > TTL * 9 / 10);
    sleep(remaining - Duration::from_millis(1)).await;
    ensure!(guard.state() == LeaseState::Held && servers.held() == 5);
    sleep(Duration::from_millis(1)).await;
    ensure!(guard.state() == LeaseState::Lost(LossReason::Expired));
    ensure!(servers.held() == 5);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_tells_every_server_whatever_one_of_them_answers() -> Result<()> {
    let servers = Servers::five();
    let process = servers.process()?;
    let guard = process.acquired().await?;
    process.links[0].plan(&lock::DROP, Fate::NotSent);
    process.links[1].plan(&lock::DROP, Fate::LoseRequest);
    ensure!(guard.release().await? == Released::Free);
    // The other servers are released in the background.
    sleep(TTL / 4).await;
    ensure!(servers.held() == 0);
    let guard = process.acquired().await?;
    process.lose(&[0, 1, 2]);
    let error = guard.release().await.unwrap_err();
    ensure!(error.to_string().contains("3 of which failed"), "{error}");
    ensure!(servers.held() == 3);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_and_a_dropped_acquisition_leave_every_server() -> Result<()> {
    let servers = Servers::five();
    let process = servers.process()?;
    drop(process.acquired().await?);
    sleep(Duration::from_millis(100)).await;
    ensure!(servers.held() == 0);
    for link in &process.links {
        link.slow_down(&redlock::ACQUIRE, Duration::from_millis(100));
    }
    let asking = timeout(
        Duration::from_millis(50),
        process.lock.acquire().into_future(),
    )
    .await;
    ensure!(asking.is_err());
    sleep(Duration::from_millis(500)).await;
    ensure!(servers.held() == 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn closing_a_majority_of_the_clients_ends_leases_and_waits() -> Result<()> {
    let servers = Servers::five();
    let (one, other) = (servers.process()?, servers.process()?);
    let guard = one.acquired().await?;
    let waiting = tokio::spawn(other.lock.acquire().into_future());
    sleep(Duration::from_secs(1)).await;
    for client in &other.clients[..3] {
        client.close().await;
    }
    ensure!(matches!(waiting.await?, Err(Error::Closed)));
    ensure!(matches!(other.lock.try_acquire().await, Err(Error::Closed)));
    for client in &one.clients[..2] {
        client.close().await;
    }
    ensure!(guard.state() == LeaseState::Held);
    one.clients[2].close().await;
    ensure!(guard.state() == LeaseState::Lost(LossReason::ClientClosed));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn verify_asks_a_majority_and_max_hold_bounds_the_whole() -> Result<()> {
    let servers = Servers::five();
    let process = servers.process()?;
    let guard = process.acquired().await?;
    guard.verify().await?;
    for server in &servers.0[..3] {
        server.execute(&["DEL", MAIN])?;
    }
    let error = guard.verify().await.unwrap_err();
    ensure!(
        matches!(
            error,
            Error::Lost {
                reason: LossReason::Gone,
                ..
            }
        ),
        "{error}"
    );
    drop(guard);
    let guard = process.lock.acquire().max_hold(TTL * 2).await?;
    let begun = Instant::now();
    let end = guard.ended().await;
    ensure!(end.reason() == Some(LossReason::MaxHold), "{end:?}");
    ensure!(begun.elapsed() <= TTL * 2 + Duration::from_millis(5));
    Ok(())
}
