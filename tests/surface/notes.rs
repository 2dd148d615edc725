//! Notes that people read: which client a waiting claim belongs to, what its acquisition noted, and which holder blocked a
//! claim that waited in vain.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, Error, FairLock, Mutex};
use lockkeeper_core::store::Value;
use lockkeeper_lua::{client, name};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::FaultyStore;
use tokio::time::{Instant, sleep};

const MOMENT: Duration = Duration::from_millis(150);
const SECOND: Duration = Duration::from_secs(1);

fn labelled(server: &MemoryStore, label: &str) -> Result<Client> {
    let settings = Client::builder().label(label);
    Ok(settings.build(Arc::new(server.sibling()))?)
}

/// The keys that contain notes.
fn notes(server: &MemoryStore) -> Vec<String> {
    let mut keys = server.keys();
    // They contain a digest of a claim beside the client's id.
    keys.retain(|key| key.starts_with("lockkeeper.client:") && key.contains("}:"));
    keys
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_is_known_by_its_label_and_its_note() -> Result<()> {
    let server = MemoryStore::new();
    let (holder, waiter) = (labelled(&server, "web-1")?, labelled(&server, "web-2")?);
    let (held, wanted) = (
        FairLock::new(&holder, "report"),
        FairLock::new(&waiter, "report"),
    );
    let guard = held.acquire().await?;
    let waiting = tokio::spawn(wanted.acquire().note("request 7f3a").into_future());
    sleep(MOMENT).await;
    let first = holder.waiters("report", 10).await?.into_iter().next();
    let first = first.context("nobody waits")?;
    ensure!(first.label.as_deref() == Some("web-2"), "{first:?}");
    ensure!(first.note.as_deref() == Some("request 7f3a"), "{first:?}");
    guard.release().await?;
    let guard = waiting.await??;
    let seen = holder.inspect("report").await?.holders.remove(0);
    ensure!(seen.note.as_deref() == Some("request 7f3a"), "{seen:?}");
    ensure!(seen.label.as_deref() == Some("web-2"), "{seen:?}");
    // The note lives as long as the claim.
    sleep(Duration::from_secs(1800)).await;
    let seen = holder.inspect("report").await?.holders.remove(0);
    ensure!(seen.note.as_deref() == Some("request 7f3a"), "{seen:?}");
    guard.release().await?;
    sleep(MOMENT).await;
    ensure!(notes(&server).is_empty(), "{:?}", notes(&server));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_key_has_a_living_claim_in_its_name() -> Result<()> {
    let server = MemoryStore::new();
    let (holder, waiter) = (labelled(&server, "web-1")?, labelled(&server, "web-2")?);
    let (held, wanted) = (
        FairLock::new(&holder, "report"),
        FairLock::new(&waiter, "report"),
    );
    let guard = held.acquire().note("nightly").await?;
    let waiting = tokio::spawn(wanted.acquire().note("request 7f3a").into_future());
    sleep(MOMENT).await;
    let claims = [
        holder.inspect("report").await?.holders.remove(0).claim,
        holder.waiters("report", 10).await?.remove(0).claim,
    ];
    let shown = notes(&server);
    ensure!(shown.len() == 2, "{shown:?}");
    for claim in claims {
        let (_, secret) = claim.split_once('/').context("a claim without a secret")?;
        let keys = server.keys();
        ensure!(!keys.iter().any(|key| key.contains(secret)), "{keys:?}");
    }
    guard.release().await?;
    waiting.await??.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_over_at_once_writes_no_note_and_no_end_leaves_one() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = FaultyStore::client(&server, Client::builder().label(""))?;
    let lock = FairLock::new(&client, "name");
    lock.acquire().note("short").await?.release().await?;
    sleep(SECOND).await;
    ensure!(store.sent(&client::INTRODUCE) == 0, "it cost something");
    let guard = lock.acquire().note("long").await?;
    let dropped = tokio::time::timeout(SECOND, lock.acquire().note("gives up").into_future());
    ensure!(dropped.await.is_err() && notes(&server).len() == 2);
    sleep(MOMENT).await;
    ensure!(notes(&server).len() == 1, "{:?}", notes(&server));
    client.revoke("name").await?;
    guard.lost().await;
    sleep(MOMENT).await;
    ensure!(notes(&server).is_empty(), "{:?}", notes(&server));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_note_that_cannot_be_shown_is_refused_before_anything_is_sent() -> Result<()> {
    let server = MemoryStore::new();
    let lock = Mutex::new(&labelled(&server, "")?, "name");
    for (note, why) in [
        ("x".repeat(257), "at most 256 bytes long, this one has 257"),
        ("a\u{1b}[2J".to_owned(), "control character"),
        ("a\nb".to_owned(), "control character"),
    ] {
        let refused = lock.acquire().note(note).await;
        let error = refused.err().context("it was taken")?;
        ensure!(
            matches!(error, Error::Config { .. }) && error.to_string().contains(why),
            "{error}"
        );
    }
    ensure!(server.keys().is_empty(), "{:?}", server.keys());
    lock.acquire()
        .note("x".repeat(256))
        .await?
        .release()
        .await?;
    lock.acquire().note("").await?.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_vain_says_who_held_for_what_and_the_place_in_the_queue() -> Result<()> {
    let server = MemoryStore::new();
    let (holder, waiter) = (labelled(&server, "web-1")?, labelled(&server, "web-2")?);
    let (held, wanted) = (
        FairLock::new(&holder, "report"),
        FairLock::new(&waiter, "report"),
    );
    let guard = held.acquire().note("nightly \u{202e}report").await?;
    let ahead = tokio::spawn(held.acquire().into_future());
    sleep(MOMENT).await;
    let late = wanted.acquire().wait_for(SECOND).await.err();
    let late = late.context("granted")?;
    let text = late.to_string();
    let Error::Timeout {
        holder: seen,
        place,
        ..
    } = late
    else {
        anyhow::bail!("{text}");
    };
    let seen = seen.context("nobody")?;
    ensure!(
        seen.claim.starts_with(&guard.owner().to_string()) && place == Some(2),
        "{text}"
    );
    ensure!(seen.label.as_deref() == Some("web-1"), "{seen:?}");
    ensure!(
        text.contains(r#"held by web-1 ("nightly \u{202e}report"), for 2"#),
        "{text}"
    );
    ensure!(text.ends_with("; place 2 in its queue"), "{text}");
    ahead.abort();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn looking_who_held_bounds_itself_and_delays_nobody_by_more_than_a_tenth_of_a_second()
-> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = FaultyStore::client(&server, Client::builder())?;
    let lock = Mutex::new(&client, "name");
    let guard = lock.acquire().await?;
    // Loads the script on the server.
    client.inspect("name").await?;
    let before = store.sent(&name::INSPECT);
    store.slow_down(&name::INSPECT, Duration::from_millis(10));
    let waits: Vec<_> = (0..200)
        .map(|_| tokio::spawn(lock.acquire().wait_for(SECOND).into_future()))
        .collect();
    let mut told = 0;
    for wait in waits {
        let Err(Error::Timeout { holder, .. }) = wait.await? else {
            anyhow::bail!("granted");
        };
        told += usize::from(holder.is_some());
    }
    ensure!(told == 16, "{told} looked");
    ensure!(store.sent(&name::INSPECT) - before == told);
    // It does not wait for a server that does not answer.
    store.slow_down(&name::INSPECT, SECOND);
    let began = Instant::now();
    let late = lock.acquire().wait_for(SECOND).await.err();
    ensure!(
        matches!(late, Some(Error::Timeout { holder: None, .. })),
        "{late:?}"
    );
    ensure!(
        began.elapsed() <= SECOND + Duration::from_millis(105),
        "{:?}",
        began.elapsed()
    );
    // Nor is the server asked for an acquire that does not wait.
    let sent = store.sent(&name::INSPECT);
    ensure!(lock.acquire().wait_for(Duration::ZERO).await.is_err());
    ensure!(store.sent(&name::INSPECT) == sent);
    drop(guard);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_type_where_a_note_would_be_hides_nothing_else() -> Result<()> {
    let server = MemoryStore::new();
    let client = labelled(&server, "web-1")?;
    let _guard = Mutex::new(&client, "name").acquire().note("mine").await?;
    sleep(MOMENT).await;
    let key = notes(&server).remove(0);
    server.execute(&["DEL", &key])?;
    server.execute(&["HSET", &key, "theirs", "1"])?;
    let seen = client.inspect("name").await?.holders.remove(0);
    ensure!(
        seen.note.is_none() && seen.label.as_deref() == Some("web-1"),
        "{seen:?}"
    );
    ensure!(server.execute(&["HGET", &key, "theirs"])? == Value::Bytes(b"1".to_vec()));
    Ok(())
}
