//! The client in `examples/other-languages/python` beside ours, on the same names: what every client of the format must do.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, Guard, LeaseState, Lock};
use lockkeeper_testkit::peer::Program;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::live::words;

/// A long waiter ttl makes heartbeats, three per ttl, rare: an earlier grant must have come by message.
const SELDOM: Duration = PATIENCE.saturating_mul(5);

/// Of all leases, on a machine without stalls.
const TTL: Duration = Duration::from_secs(4);

/// A server, a client in Python and two of ours, with this waiter ttl.
struct Both {
    ttl: Duration,
    server: Server,
    python: Program,
    ours: Client,
    /// A second client of ours, because the waiters of one client hand a mutex over among themselves.
    other: Client,
}

impl Both {
    /// Returns `None`, after a message, if there is no Python for it.
    async fn start(waiter_ttl: Duration, ttl: Duration) -> Result<Option<Self>> {
        let Some(words) = words("python-client")? else {
            return Ok(None);
        };
        let server = [Server::start().await?];
        let mut python = Program::start(&words, &server).await?;
        let [server] = server;
        let order = json!({ "do": "client", "waiter_ttl": waiter_ttl.as_secs_f64() });
        python.work(&order, PATIENCE).await?;
        let settings = Client::builder().ttl(ttl).waiter_ttl(waiter_ttl);
        let ours = lockkeeper::connect_with(&server.url(), settings.clone()).await?;
        let other = lockkeeper::connect_with(&server.url(), settings).await?;
        Ok(Some(Self {
            ttl,
            server,
            python,
            ours,
            other,
        }))
    }

    /// Makes the client in Python do one step of the acquisition with this number.
    async fn step(&mut self, step: &str, number: u32) -> Result<Value> {
        let order = json!({ "do": step, "number": number });
        self.python.work(&order, PATIENCE).await
    }

    async fn begin(&mut self, kind: &str, number: u32) -> Result<()> {
        let ttl = self.ttl.as_secs_f64();
        let order =
            json!({ "do": "begin", "number": number, "kind": kind, "name": "name", "ttl": ttl });
        self.python.work(&order, PATIENCE).await?;
        Ok(())
    }

    async fn granted(&mut self, number: u32) -> Result<u64> {
        let granted = self.step("granted", number).await?;
        granted["token"].as_u64().context("no token")
    }

    /// Waits until this many claims wait in the queue.
    async fn queued(&self, waiters: usize) -> Result<()> {
        let queued = async {
            while self.ours.waiters("name", 10).await?.len() != waiters {
                sleep(Duration::from_millis(5)).await;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, queued).await.context("another queue")?
    }
}

/// Calls `attempt` with a ttl that the machine can keep.
async fn attempt(attempt: impl AsyncFnMut(Duration) -> Result<()>) -> Result<()> {
    beyond_stalls(&Server::start().await?, TTL, attempt).await
}

macro_rules! of_both_kinds {
    ($($test:ident)*) => {
        mod mutex {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "long: needs Python"]
            async fn $test() -> anyhow::Result<()> {
                super::attempt(async |ttl| super::$test(ttl, "mutex", |client| lockkeeper::Mutex::new(client, "name")).await).await
            }
        )*}
        mod fair {$(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "long: needs Python"]
            async fn $test() -> anyhow::Result<()> {
                super::attempt(async |ttl| super::$test(ttl, "fair", |client| lockkeeper::FairLock::new(client, "name")).await).await
            }
        )*}
    };
}

of_both_kinds! {
    a_release_grants_the_lock_to_the_other_side_by_a_message
    whoever_gives_up_leaves_the_queue_at_once
    a_lease_is_renewed_whether_or_not_somebody_waits
    a_waiter_is_heard_of_for_longer_than_its_ttl
    a_holder_that_is_killed_keeps_the_lock_for_its_lease
    a_holder_is_told_that_it_is_revoked
}

async fn a_release_grants_the_lock_to_the_other_side_by_a_message<L: Lock + 'static>(
    ttl: Duration,
    kind: &str,
    of: fn(&Client) -> L,
) -> Result<()> {
    let Some(mut both) = Both::start(SELDOM, ttl).await? else {
        return Ok(());
    };
    let lock = of(&both.ours);
    let first = lock.acquire().await?;
    both.begin(kind, 2).await?;
    both.queued(1).await?;
    let last = tokio::spawn(of(&both.other).acquire().into_future());
    both.queued(2).await?;
    let intruder = lock.try_acquire().await?;
    assert!(
        intruder.is_none() || first.lease().ensure_held().is_err(),
        "both hold"
    );

    let token = first.lease().fencing_token();
    Guard::release(first).await?;
    let second = both.granted(2).await?;
    assert!(second > token.get(), "{second} after {token:?}");
    ensure!(!last.is_finished(), "both hold");
    ensure!(both.step("release", 2).await?["released"] == true);
    let last = timeout(PATIENCE, last).await???;
    let third = last.lease().fencing_token().get();
    assert!(third > second, "{third} after {second}");
    Guard::release(last).await?;
    let keys = both.server.keys().await?;
    let of_the_name = |key: &String| key.contains("lockkeeper:name");
    ensure!(!keys.iter().any(of_the_name), "{keys:?} are left");
    Ok(())
}

async fn whoever_gives_up_leaves_the_queue_at_once<L: Lock + 'static>(
    ttl: Duration,
    kind: &str,
    of: fn(&Client) -> L,
) -> Result<()> {
    let Some(mut both) = Both::start(SELDOM, ttl).await? else {
        return Ok(());
    };
    let lock = of(&both.ours);
    let held = lock.acquire().await?;
    both.begin(kind, 1).await?;
    both.queued(1).await?;
    both.begin(kind, 2).await?;
    both.queued(2).await?;
    ensure!(both.step("cancel", 1).await?["cancelled"] == true);
    both.queued(1).await?;
    Guard::release(held).await?;
    both.granted(2).await?;
    ensure!(both.step("release", 2).await?["released"] == true);
    Ok(())
}

async fn a_lease_is_renewed_whether_or_not_somebody_waits<L: Lock + 'static>(
    ttl: Duration,
    kind: &str,
    of: fn(&Client) -> L,
) -> Result<()> {
    let Some(mut both) = Both::start(SELDOM, ttl).await? else {
        return Ok(());
    };
    let lock = of(&both.ours);
    both.begin(kind, 1).await?;
    both.granted(1).await?;
    sleep(ttl * 2).await;
    ensure!(lock.try_acquire().await?.is_none(), "it was not renewed");
    let waiting = tokio::spawn(lock.acquire().into_future());
    both.queued(1).await?;
    sleep(ttl * 2).await;
    ensure!(!waiting.is_finished(), "it was not renewed once inflated");
    ensure!(both.step("held", 1).await?["held"] == true);
    ensure!(both.step("release", 1).await?["released"] == true);
    let guard = timeout(PATIENCE, waiting).await???;
    ensure!(guard.lease().state() == LeaseState::Held);
    Guard::release(guard).await?;
    Ok(())
}

async fn a_waiter_is_heard_of_for_longer_than_its_ttl<L: Lock + 'static>(
    ttl: Duration,
    kind: &str,
    of: fn(&Client) -> L,
) -> Result<()> {
    let Some(mut both) = Both::start(ttl, ttl).await? else {
        return Ok(());
    };
    let lock = of(&both.ours);
    let held = lock.acquire().await?;
    both.begin(kind, 1).await?;
    both.queued(1).await?;
    let second = tokio::spawn(of(&both.other).acquire().into_future());
    both.queued(2).await?;
    sleep(ttl * 3).await;
    Guard::release(held).await?;
    both.granted(1).await?;
    ensure!(!second.is_finished(), "it has lost its place");
    ensure!(both.step("release", 1).await?["released"] == true);
    Guard::release(timeout(PATIENCE, second).await???).await?;
    Ok(())
}

async fn a_holder_that_is_killed_keeps_the_lock_for_its_lease<L: Lock + 'static>(
    ttl: Duration,
    kind: &str,
    of: fn(&Client) -> L,
) -> Result<()> {
    let Some(mut both) = Both::start(SELDOM, ttl).await? else {
        return Ok(());
    };
    let lock = of(&both.ours);
    both.begin(kind, 1).await?;
    let token = both.granted(1).await?;
    drop(both.python);
    let guard = timeout(PATIENCE, lock.acquire().into_future()).await??;
    assert!(guard.lease().fencing_token().get() > token);
    Guard::release(guard).await?;
    Ok(())
}

async fn a_holder_is_told_that_it_is_revoked<L: Lock + 'static>(
    ttl: Duration,
    kind: &str,
    _of: fn(&Client) -> L,
) -> Result<()> {
    let Some(mut both) = Both::start(SELDOM, ttl).await? else {
        return Ok(());
    };
    both.begin(kind, 1).await?;
    both.granted(1).await?;
    ensure!(both.ours.revoke("name").await? == 1);
    ensure!(both.step("lost", 1).await?["reason"] == "revoked");
    Ok(())
}

/// Faults between the client and its connection can be planned in Python alone, so these tests are written in it.
#[tokio::test]
#[ignore = "long: needs Python"]
async fn requests_that_fail_and_tasks_that_are_cancelled_leave_nothing_behind() -> Result<()> {
    let Some(words) = words("python-client")? else {
        return Ok(());
    };
    let python = words.first().context("no word")?;
    let tests = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/peers/python-client/test_client.py"
    );
    let server = Server::start().await?;
    let mut run = Command::new(python);
    run.arg(tests).arg(server.address().to_string());
    let run = timeout(PATIENCE * 5, run.kill_on_drop(true).output()).await??;
    let printed = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "{printed}");
    println!("{printed}");
    Ok(())
}
