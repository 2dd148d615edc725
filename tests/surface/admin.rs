//! Administration of a lock: inspecting it, taking it by force, and the requests or replies that may get lost.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Client, Error, Mutex};
use lockkeeper_lua::name;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::{Fate, FaultyStore};
use lockkeeper_testkit::site::Site as _;
use lockkeeper_tests::{client, counter, faulty};
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(6);

#[tokio::test(start_paused = true)]
async fn what_another_library_holds_is_shown_and_can_be_forced_but_not_revoked() -> Result<()> {
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    Mutex::new(&client, "job")
        .acquire()
        .await?
        .release()
        .await?;
    server.execute(&["SET", "job", "their token"])?;
    let seen = client.inspect("job").await?;
    ensure!(seen.kind.as_deref() == Some("foreign") && seen.token.is_none());
    let holder = &seen.holders[0];
    ensure!(
        (&*holder.claim, holder.owner, holder.left) == ("their token", None, None),
        "{holder:?}"
    );
    let error = client.revoke("job").await.unwrap_err();
    ensure!(matches!(error, Error::Foreign { .. }), "{error:?}");
    ensure!(
        error.to_string().contains("by another library")
            && error.to_string().contains("their token"),
        "{error}"
    );
    ensure!(client.force_release("job", "their token").await?);
    ensure!(Mutex::new(&client, "job").try_acquire().await?.is_some());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_that_holds_no_lock_is_told_from_a_free_one_and_left_alone() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    server.execute(&[
        "HSET",
        "lockkeeper:name",
        "field",
        "value",
        "kind",
        "dish",
        "total",
        "99999999999999",
    ])?;
    for error in [
        client.inspect("name").await.err(),
        client.revoke("name").await.err(),
        client.force_release("name", "total").await.err(),
    ] {
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        ensure!(
            text.contains("is no known lock") || text.contains("is no revocable lock"),
            "{text}"
        );
    }
    ensure!(
        server
            .execute(&["HGET", "lockkeeper:name", "field"])?
            .as_str()
            == Some("value")
    );
    let error = client.inspect("").await.err();
    ensure!(matches!(error, Some(Error::Config { .. })), "{error:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_holds_for_long_is_still_known_and_one_that_left_is_forgotten() -> Result<()>
{
    let server = MemoryStore::new();
    let holder = server
        .client(Client::builder().label("the long one"))
        .await?;
    let guard = Mutex::new(&holder, "name").acquire().await?;
    sleep(Duration::from_secs(3600)).await;
    let seen = holder.inspect("name").await?;
    ensure!(seen.holders[0].label.as_deref() == Some("the long one"));
    guard.release().await?;
    sleep(Duration::from_secs(801)).await;
    ensure!(server.keys() == [counter("name")?], "{:?}", server.keys());

    // And the client introduces itself again.
    let guard = Mutex::new(&holder, "name").acquire().await?;
    sleep(Duration::from_millis(1)).await;
    let seen = holder.inspect("name").await?;
    ensure!(seen.holders[0].label.is_some());
    drop(guard);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_label_says_where_a_client_runs_unless_told_otherwise() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let _guard = Mutex::new(&client, "name").acquire().await?;
    sleep(Duration::from_millis(1)).await;
    let label = client.inspect("name").await?.holders[0].label.clone();
    let process = format!(":{}", std::process::id());
    ensure!(
        label
            .as_ref()
            .is_some_and(|label| label.ends_with(&process)),
        "{label:?}"
    );
    let long = Client::builder().label("x".repeat(257));
    let error = lockkeeper::connect_with("memory://", long).await.err();
    ensure!(matches!(error, Some(Error::Config { .. })), "{error:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_value_is_no_text_can_be_inspected() -> Result<()> {
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    let write = "return redis.call('SET', KEYS[1], '\\255\\000\\254', 'PX', 5000)";
    server.command(&["EVAL", write, "1", "job"]).await.ok();
    let seen = client.inspect("job").await?;
    ensure!(seen.kind.as_deref() == Some("foreign"), "{seen:?}");
    ensure!(seen.holders.len() == 1 && seen.holders[0].owner.is_none());
    // It is not taken for a claim of ours.
    ensure!(!client.force_release("job", "").await?);
    ensure!(seen.holders[0].claim == "hex:ff00fe", "{seen:?}");
    ensure!(!client.force_release("job", "hex:ff00").await?);
    ensure!(client.force_release("job", "hex:ff00fe").await?);
    ensure!(client.inspect("job").await?.holders.is_empty());
    Ok(())
}

/// Redisson's format: which holders hold how often, and for a read-write lock in which mode.
#[tokio::test(start_paused = true)]
async fn a_lock_of_redisson_is_shown_with_its_holders_and_can_be_forced() -> Result<()> {
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    let thread = "67e55044-10b1-426f-9247-bb680e5fe0c8:42";
    let writer = format!("{thread}:write");
    let other = "0c5e7a4e-6b1f-4a53-8a51-3f4f52d4a8c9:1";
    let plain = vec![thread, "2"];
    let read = vec!["mode", "read", thread, "1", other, "1"];
    let written = vec!["mode", "write", &*writer, "1"];
    for (fields, holders) in [
        (plain, vec![thread]),
        (read.clone(), vec![other, thread]),
        (written, vec![&*writer]),
    ] {
        server.execute(&[&["HSET", "job"], &fields[..]].concat())?;
        server.execute(&["PEXPIRE", "job", "30000"])?;
        let seen = client.inspect("job").await?;
        ensure!(seen.kind.as_deref() == Some("redisson"), "{seen:?}");
        let mut claims: Vec<_> = seen.holders.iter().map(|it| &*it.claim).collect();
        claims.sort_unstable();
        ensure!(claims == holders, "{seen:?}");
        for holder in &seen.holders {
            ensure!(holder.left == Some(Duration::from_secs(30)), "{holder:?}");
            ensure!(holder.shared == (fields == read) && holder.owner.is_none());
        }
        let error = client.revoke("job").await.unwrap_err();
        ensure!(matches!(error, Error::Foreign { .. }), "{error:?}");
        let said = error.to_string();
        ensure!(holders.iter().any(|it| said.contains(it)), "{error}");
        ensure!(!client.force_release("job", "somebody").await?);
        ensure!(client.force_release("job", holders[0]).await?);
        ensure!(client.inspect("job").await?.holders.is_empty());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hash_with_anything_else_in_it_is_no_lock() -> Result<()> {
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    let thread = "67e55044-10b1-426f-9247-bb680e5fe0c8:42";
    for fields in [
        &["mode", "write"][..],
        &[thread, "1", "colour", "red"],
        &["colour", "red"],
    ] {
        server.execute(&[&["HSET", "job"], fields].concat())?;
        for refused in [
            client.inspect("job").await.err(),
            client.revoke("job").await.err(),
            client.force_release("job", thread).await.err(),
        ] {
            ensure!(
                matches!(refused, Some(Error::WrongKind { .. })),
                "{refused:?}"
            );
        }
        server.execute(&["DEL", "job"])?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_looks_like_a_word_of_ours_in_anothers_value_excludes_and_is_left_alone() -> Result<()>
{
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    for value in ["kept:x", "revoked:x", "kept:", "revoked:kept:y", ""] {
        server.execute(&["SET", "job", value, "PX", "5000"])?;
        ensure!(Mutex::new(&client, "job").try_acquire().await?.is_none());
        let error = client.revoke("job").await.err();
        ensure!(matches!(error, Some(Error::Foreign { .. })), "{error:?}");
        ensure!(server.command(&["GET", "job"]).await? == value);
        let shown = client.inspect("job").await?.holders[0].claim.clone();
        ensure!(!client.force_release("job", "another").await?);
        ensure!(client.force_release("job", &shown).await?, "{value}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_whose_answer_was_lost_is_not_reported_as_none() -> Result<()> {
    let server = MemoryStore::new();
    let holder = client(&server, TTL).await?;
    let (other, store) = faulty(&server, TTL)?;
    // Loads the script on the server.
    ensure!(!other.force_release("name", "nobody").await?);
    let guard = Mutex::new(&holder, "name").acquire().await?;
    let claim = other.inspect("name").await?.holders[0].claim.clone();
    store.plan(&name::FREE, Fate::LoseReply);
    let outcome = other.force_release("name", &claim).await;
    ensure!(other.inspect("name").await?.kind.is_none());
    ensure!(!matches!(outcome, Ok(false)), "it was released by force");
    drop(guard);

    // A request that was never sent leaves no doubt.
    store.plan(&name::FREE, Fate::NotSent);
    ensure!(!other.force_release("name", &claim).await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_no_inspection_and_counts_none() -> Result<()> {
    let server = MemoryStore::new();
    let settings = Client::builder().request_timeout(Duration::from_secs(60));
    let (client, store) = FaultyStore::client(&server, settings)?;
    store.silence("lockkeeper:name");
    let looking = tokio::spawn({
        let client = client.clone();
        async move { client.inspect("name").await }
    });
    store.wait_sent(&name::INSPECT, 1).await;
    let report = client.close().await;
    ensure!(report.unconfirmed == 0, "{report:?}");
    let error = timeout(Duration::from_secs(1), looking).await??.err();
    ensure!(matches!(error, Some(Error::Closed)), "{error:?}");
    Ok(())
}
