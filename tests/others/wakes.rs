//! How soon one of our waiters is granted a lock after another library, which sends no message, releases it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lockkeeper::{ClientBuilder, Mutex};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::polling;
use tokio::time::{sleep, timeout};

/// Longer than a test: an earlier grant must have been notified.
const NEVER: Duration = Duration::from_secs(600);

/// The channel on which the server reports events of the key.
const CHANNEL: &str = "__keyspace@0__:name";

async fn notifying() -> Result<Server> {
    let server = Server::start().await?;
    let set = ["CONFIG", "SET", "notify-keyspace-events", "Kgx"];
    server.command(&set).await?;
    Ok(server)
}

/// The number of subscribers to events of the key.
async fn listeners(server: &Server) -> Result<String> {
    let answer = server.command(&["PUBSUB", "NUMSUB", CHANNEL]).await?;
    Ok(format!("{answer:?}"))
}

async fn listened_to(server: &Server) -> Result<()> {
    let listens = async {
        while !listeners(server).await?.contains("Integer(1)") {
            sleep(Duration::from_millis(5)).await;
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, listens).await?
}

#[tokio::test]
async fn a_notification_of_the_server_wakes_a_waiter_behind_another_library() -> Result<()> {
    let server = notifying().await?;
    let settings = polling().keyspace_notifications(true).poll_every(NEVER);
    let client = lockkeeper::connect_with(&server.url(), settings).await?;
    let lock = Mutex::new(&client, "name");
    for release in [&["DEL", "name"][..], &["PEXPIRE", "name", "1"]] {
        server.command(&["SET", "name", "theirs"]).await?;
        let waiting = tokio::spawn(lock.acquire().into_future());
        listened_to(&server).await?;
        // A renewed lease or a lock with another name is no reason to poll.
        server.command(&["PEXPIRE", "name", "500000"]).await?;
        server.command(&["DEL", "other"]).await?;
        server.command(release).await?;
        timeout(PATIENCE, waiting).await???.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn nobody_listens_for_keys_unless_told_to_or_where_names_are_our_own() -> Result<()> {
    let server = notifying().await?;
    let own = polling().namespace("own").keyspace_notifications(true);
    for (settings, key) in [(polling(), "name"), (own, "own:name")] {
        let client = lockkeeper::connect_with(&server.url(), settings).await?;
        let lock = Mutex::new(&client, "name");
        let guard = lock.acquire().await?;
        let waiting = tokio::spawn(lock.acquire().into_future());
        let waits = async {
            while client.inspect("name").await?.waiters == Some(0) {
                sleep(Duration::from_millis(5)).await;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, waits).await??;
        let channel = format!("__keyspace@0__:{key}");
        let answer = server.command(&["PUBSUB", "NUMSUB", &channel]).await?;
        ensure!(format!("{answer:?}").contains("Integer(0)"), "{answer:?}");
        guard.release().await?;
        timeout(PATIENCE, waiting).await???.release().await?;
        client.close().await;
    }
    Ok(())
}

/// The median delay: polling by default settings, polling every 50 ms, and notified by the server.
#[tokio::test]
#[ignore = "long: a hundred releases of another library for each setting"]
async fn a_release_of_another_library_is_found_in_the_time_that_is_set() -> Result<()> {
    let server = notifying().await?;
    let told = polling().keyspace_notifications(true).poll_every(NEVER);
    let half = polling().poll_every(Duration::from_millis(50));
    for (what, settings) in [("default", polling()), ("50 ms", half), ("told", told)] {
        let mut waits = wakes(&server, settings, what == "told").await?;
        waits.sort();
        println!(
            "{what}: median {:?}, 90 % {:?}, longest {:?} of {}",
            waits[waits.len() / 2],
            waits[waits.len() * 9 / 10],
            waits[waits.len() - 1],
            waits.len()
        );
        ensure!(waits.len() == 100, "{waits:?}");
    }
    Ok(())
}

/// Measures a hundred times from the reply to another library's release to our grant.
async fn wakes(server: &Server, settings: ClientBuilder, told: bool) -> Result<Vec<Duration>> {
    let client = lockkeeper::connect_with(&server.url(), settings).await?;
    let lock = Mutex::new(&client, "name");
    let mut waits = Vec::new();
    for _ in 0..100 {
        server.command(&["SET", "name", "theirs"]).await?;
        let lock = lock.clone();
        let waiting = tokio::spawn(async move {
            let guard = lock.acquire().await?;
            let granted = Instant::now();
            guard.release().await?;
            anyhow::Ok(granted)
        });
        if told {
            listened_to(server).await?;
        }
        // A random moment between two polls.
        sleep(Duration::from_millis(fastrand::u64(100..300))).await;
        server.command(&["DEL", "name"]).await?;
        let released = Instant::now();
        let granted = timeout(PATIENCE, waiting).await???;
        waits.push(granted.saturating_duration_since(released));
    }
    client.close().await;
    Ok(waits)
}
