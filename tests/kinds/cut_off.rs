//! Programs that repeat a call at once while the client has no connection: the task that connects again must get to run.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use lockkeeper::{Client, Latch, Mutex, Once};
use lockkeeper_lua::latch;
use lockkeeper_memory::{Faults, MemoryStore};
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_tests::faulty;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How many tasks repeat the call.
const TASKS: usize = 6;

/// How often each of them repeats it at most. Without the other task, that would be no time at all.
const TIMES: usize = 10_000;

/// How often the task that connects must run until it has connected.
const STEPS: usize = 50;

fn client_of(server: &MemoryStore) -> Result<(Client, Faults)> {
    let store = server.sibling();
    let faults = store.faults();
    Ok((Client::builder().build(Arc::new(store))?, faults))
}

/// All tasks repeat `call` until it succeeds; another one restores the connection, on the same thread.
async fn comes_back<F>(
    faults: &Faults,
    what: &'static str,
    call: impl Fn() -> F + Clone + Send + 'static,
) -> Result<()>
where
    F: Future<Output = lockkeeper::Result<()>> + Send + 'static,
{
    faults.disconnect();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let call = call.clone();
        tasks.spawn(async move {
            for _ in 0..TIMES {
                if call().await.is_ok() {
                    return Ok(());
                }
            }
            bail!("{what}: the connection never came back")
        });
    }
    let faults = faults.clone();
    tasks.spawn(async move {
        for _ in 0..STEPS {
            tokio::task::yield_now().await;
        }
        faults.reconnect();
        Ok(())
    });
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Makes a call of these handles that can be repeated by any task.
macro_rules! repeated {
    (|$($handle:ident),+| $call:expr) => {{
        $(let $handle = $handle.clone();)+
        move || {
            $(let $handle = $handle.clone();)+
            async move { $call.await.map(drop) }
        }
    }};
}

#[tokio::test(start_paused = true)]
async fn who_repeats_a_call_at_once_does_not_keep_its_client_from_connecting_again() -> Result<()> {
    let server = MemoryStore::new();
    let (client, faults) = client_of(&server)?;
    let (latch, once) = (Latch::new(&client, "latch"), Once::new(&client, "once"));
    latch.arm(1).await?;
    let guard = Mutex::new(&client, "held").acquire().await?;
    let (lease, free) = (guard.clone(), Mutex::new(&client, "free"));
    comes_back(&faults, "arm", repeated!(|latch| latch.arm(1))).await?;
    let count = repeated!(|latch| latch.count_down("id"));
    comes_back(&faults, "count down", count).await?;
    let look = repeated!(|latch| latch.remaining());
    comes_back(&faults, "look at", look).await?;
    let inspect = repeated!(|client| client.inspect("held"));
    comes_back(&faults, "inspect", inspect).await?;
    let rights = repeated!(|client| client.missing_rights());
    comes_back(&faults, "ask for rights", rights).await?;
    let facts = repeated!(|client| client.server_facts());
    comes_back(&faults, "describe", facts).await?;
    let list = repeated!(|client| async { client.names("*").next_page().await });
    comes_back(&faults, "list", list).await?;
    comes_back(&faults, "peek", repeated!(|once| once.peek())).await?;
    let attempt = repeated!(|free| async { free.try_acquire().await });
    comes_back(&faults, "try to acquire", attempt).await?;
    comes_back(&faults, "verify", repeated!(|lease| lease.verify())).await?;
    guard.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn between_two_tries_the_connection_has_a_moment_to_come_back() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, Duration::from_secs(30))?;
    let latch = Latch::new(&client, "name");
    requests.plan(&latch::ARM, Fate::NotSent);
    let began = Instant::now();
    ensure!(latch.arm(1).await?);
    ensure!(requests.sent(&latch::ARM) >= 2);
    let took = began.elapsed();
    ensure!(
        !took.is_zero() && took < Duration::from_millis(100),
        "{took:?}"
    );
    Ok(())
}
