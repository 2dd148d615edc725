//! Locks between processes on a real server: exclusion, and holders that are killed or stopped.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{FairLock, Mutex};
use lockkeeper_testkit::history::History;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use lockkeeper_tests::holder::{Holder, millis};
use lockkeeper_tests::patient;
use tokio::time::timeout;

use crate::HOLDER;

#[tokio::test]
async fn sixty_four_tasks_in_four_processes_never_overlap() -> Result<()> {
    let server = Server::start().await?;
    let mut holders = Vec::new();
    for _ in 0..4 {
        holders.push(Holder::start(
            HOLDER,
            &["work", &server.url(), "name", "16", "10"],
        )?);
    }
    let history = History::default();
    for mut holder in holders {
        for line in holder.rest().await? {
            history.record(line.parse()?);
        }
    }
    let grants = history.check()?;
    ensure!(grants == 4 * 16 * 10, "{grants} grants");
    Ok(())
}

#[tokio::test]
async fn a_holder_killed_on_the_spot_lets_the_next_in_when_its_lease_ends() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let lock = Mutex::new(&client, "name");
    beyond_stalls(&server, Duration::from_secs(1), async |ttl| {
        let words = ["hold", &server.url(), "name", &millis(ttl)];
        let mut holder = Holder::start(HOLDER, &words)?;
        let held: u64 = holder.line().await?.trim_start_matches("held ").parse()?;
        ensure!(lock.try_acquire().await?.is_none());
        holder.kill().await?;
        let killed = Instant::now();
        let guard = lock.acquire().wait_for(PATIENCE).await?;
        assert!(guard.fencing_token().get() > held);
        // The lease had at most its ttl left; the rest is the jitter of the poll (at most 50 ms) and this machine.
        ensure!(killed.elapsed() < ttl * 2, "{:?}", killed.elapsed());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_holder_stopped_for_longer_than_its_ttl_knows_within_two_ttls_of_waking() -> Result<()> {
    let server = Server::start().await?;
    beyond_stalls(&server, Duration::from_millis(500), async |ttl| {
        let words = ["hold", &server.url(), "name", &millis(ttl)];
        let mut holder = Holder::start(HOLDER, &words)?;
        holder.line().await?;
        holder.signal("-STOP")?;
        timeout(PATIENCE, server.vanished("lockkeeper:name")).await??;
        holder.signal("-CONT")?;
        let woken = Instant::now();
        assert_eq!(holder.line().await?, "lost Expired and knows");
        ensure!(woken.elapsed() < ttl * 2, "{:?}", woken.elapsed());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_holder_told_to_let_go_frees_the_lock_at_once() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), patient()).await?;
    let mut holder = Holder::start(HOLDER, &["hold", &server.url(), "name", "600000"])?;
    holder.line().await?;
    let waiting = tokio::spawn(async move { Mutex::new(&client, "name").acquire().await });
    ensure!(holder.tell("").await? == "released");
    timeout(PATIENCE, waiting).await???.release().await?;
    Ok(())
}

#[tokio::test]
async fn two_hundred_waiters_of_four_processes_are_served_in_the_order_of_asking() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let guard = FairLock::new(&client, "name").acquire().await?;
    let mut holders = Vec::new();
    for _ in 0..4 {
        let mut holder = Holder::start(HOLDER, &["queue", &server.url(), "name", "50", "600000"])?;
        ensure!(holder.line().await? == "queued");
        holders.push(holder);
    }
    let mut last = guard.fencing_token().get();
    guard.release().await?;
    for holder in &mut holders {
        for place in 0..50 {
            let line = holder.line().await?;
            let token = line.strip_prefix(&format!("served {place} "));
            let token: u64 = token.with_context(|| line.clone())?.parse()?;
            // The tokens give the order between processes.
            ensure!(token > last, "{line} after {last}");
            last = token;
        }
    }
    Ok(())
}

#[tokio::test]
async fn fifty_waiters_killed_on_the_spot_delay_the_next_by_one_waiter_ttl_and_a_heartbeat()
-> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    beyond_stalls(&server, Duration::from_secs(1), async |ttl| {
        let guard = FairLock::new(&client, "name").acquire().await?;
        let queue = async |waiters| {
            let words = ["queue", &server.url(), "name", waiters, &millis(ttl)];
            let mut holder = Holder::start(HOLDER, &words)?;
            ensure!(holder.line().await? == "queued");
            Ok(holder)
        };
        let (mut killed, mut next) = (queue("50").await?, queue("1").await?);
        killed.kill().await?;
        let released = Instant::now();
        guard.release().await?;
        ensure!(next.line().await?.starts_with("served 0 "));
        // One waiter ttl and one heartbeat, plus the delays of this machine.
        ensure!(
            released.elapsed() < ttl * 11 / 6,
            "{:?}",
            released.elapsed()
        );
        Ok(())
    })
    .await
}
