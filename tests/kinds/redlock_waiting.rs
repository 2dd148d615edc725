//! Waiters of a Redlock that hear of few servers, on embedded servers with paused time.

use anyhow::{Result, ensure};
use tokio::time::timeout;

use crate::kinds::redlock::{MAIN, Servers, TTL};

/// What others keep there has no end that anybody could wait for, and most servers let nobody listen.
#[tokio::test(start_paused = true)]
async fn who_may_listen_to_a_minority_alone_comes_in_when_a_majority_is_free() -> Result<()> {
    let servers = Servers::new();
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
