//! What waiters of a Redlock hear, and what they wait for, on embedded servers with paused time.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_lua::redlock;
use lockkeeper_tests::majority::{MAIN, Process, Servers, TTL};
use tokio::time::{Instant, sleep, timeout};

/// Another library's keys there have no expiry to wait for, and most servers refuse subscriptions.
#[tokio::test(start_paused = true)]
async fn who_may_listen_to_a_minority_alone_comes_in_when_a_majority_is_free() -> Result<()> {
    let servers = Servers::five();
    for server in &servers.0[..3] {
        server.execute(&["SET", MAIN, "somebody else's"])?;
    }
    let process = servers.process()?;
    for link in &process.links[..3] {
        link.refuse_subscriptions("NOPERM no channels");
    }
    let mut waiting = tokio::spawn(process.lock.acquire().into_future());
    let early = timeout(TTL * 3, &mut waiting).await;
    ensure!(early.is_err(), "{early:?}");
    for server in &servers.0[..3] {
        server.execute(&["DEL", MAIN])?;
    }
    let guard = timeout(TTL * 3, waiting).await???;
    ensure!(guard.valid_parts() == 5, "{guard:?}");
    guard.release().await?;
    Ok(())
}

/// How long ten hand-overs from one process to another take.
async fn handed_over(holder: &Process, waiter: &Process) -> Result<Duration> {
    let delay = |delay| {
        for link in &waiter.links {
            link.slow_down(&redlock::ACQUIRE, delay);
        }
    };
    let mut took = Duration::ZERO;
    for _ in 0..10 {
        let guard = holder.acquired().await?;
        // No reply comes before every server was asked, so all servers know the waiter.
        delay(Duration::from_millis(1));
        let asked = waiter.links[0].sent(&redlock::ACQUIRE);
        let waiting = tokio::spawn(waiter.lock.acquire().into_future());
        // After its subscriptions it has asked once more.
        waiter.links[0]
            .wait_sent(&redlock::ACQUIRE, asked + 2)
            .await;
        sleep(Duration::from_millis(100)).await;
        delay(Duration::ZERO);
        let released = Instant::now();
        guard.release().await?;
        let next = timeout(TTL, waiting).await???;
        took += released.elapsed();
        next.release().await?;
    }
    Ok(took)
}

#[tokio::test(start_paused = true)]
async fn a_waiter_asks_at_once_when_all_servers_have_told() -> Result<()> {
    let servers = Servers::five();
    let took = handed_over(&servers.process()?, &servers.process()?).await?;
    ensure!(took == Duration::ZERO, "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_asks_at_once_when_all_servers_that_let_it_listen_have_told() -> Result<()> {
    let servers = Servers::five();
    let waiter = servers.process()?;
    for link in &waiter.links[3..] {
        link.refuse_subscriptions("NOPERM no channels");
    }
    let took = handed_over(&servers.process()?, &waiter).await?;
    ensure!(took == Duration::ZERO, "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_waits_a_moment_for_the_rest_when_a_majority_has_told() -> Result<()> {
    let servers = Servers::five();
    let (holder, waiter) = (servers.process()?, servers.process()?);
    let guard = holder.acquired().await?;
    let waiting = tokio::spawn(waiter.lock.acquire().into_future());
    sleep(Duration::from_millis(100)).await;
    holder.lose(&[3, 4]);
    let released = Instant::now();
    guard.release().await?;
    let next = timeout(TTL, waiting).await???;
    let took = released.elapsed();
    ensure!(next.valid_parts() == 3, "{next:?}");
    ensure!(
        took > Duration::ZERO && took < Duration::from_millis(100),
        "{took:?}"
    );
    Ok(())
}
