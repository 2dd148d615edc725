//! The re-entrant lock: hold counts, a lease per claim, owners in several processes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, Error, LeaseState, LossReason, Owner, ReentrantLock, Released};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::beyond_stalls;

use crate::HOLDER;
use lockkeeper_tests::holder::{Holder, millis};
use lockkeeper_tests::{client, patient, until};

const MAIN: &str = "lockkeeper:name";
const TTL: Duration = Duration::from_secs(30);

/// How many claims the server has.
async fn holds(client: &Client) -> Result<usize> {
    Ok(client.inspect("name").await?.holders.len())
}

/// A method that locks calls another one that locks the same name.
#[tokio::test]
async fn nested_calls_get_in_and_nobody_else_until_the_last_has_left() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let (lock, owner, stranger) = (
        ReentrantLock::new(&client, "name"),
        client.new_owner(),
        client.new_owner(),
    );

    let outer = lock.acquire().owner(&owner).await?;
    ensure!(holds(&client).await? == 1);
    let inner = lock.acquire().owner(&owner).await?;
    let innermost = inner.reenter().await?;
    ensure!(holds(&client).await? == 3);
    ensure!(outer.fencing_token() == innermost.fencing_token());
    ensure!(lock.try_acquire().owner(&stranger).await?.is_none());

    ensure!(innermost.release().await? == Released::StillHeld(2));
    ensure!(outer.release().await? == Released::StillHeld(1));
    ensure!(holds(&client).await? == 1);
    ensure!(
        lock.try_acquire().owner(&stranger).await?.is_none(),
        "the inner hold is still there"
    );
    let token = inner.fencing_token();
    ensure!(inner.release().await? == Released::Free);
    ensure!(server.command(&["EXISTS", MAIN]).await?.into_text()? == "0");
    ensure!(
        lock.try_acquire()
            .owner(&stranger)
            .await?
            .context("it is free")?
            .fencing_token()
            > token
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_short_inner_lease_never_shortens_the_outer_one() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let (lock, owner, stranger) = (
        ReentrantLock::new(&client, "name"),
        client.new_owner(),
        client.new_owner(),
    );
    let outer = lock
        .acquire()
        .owner(&owner)
        .ttl(Duration::from_secs(60))
        .no_renewal()
        .await?;
    let inner = lock
        .acquire()
        .owner(&owner)
        .ttl(Duration::from_secs(1))
        .no_renewal()
        .await?;
    ensure!(inner.lost().await.reason == LossReason::Expired);
    tokio::time::sleep(Duration::from_secs(50)).await;
    ensure!(outer.state() == LeaseState::Held);
    outer.verify().await?;
    ensure!(lock.try_acquire().owner(&stranger).await?.is_none());
    ensure!(
        outer.release().await? == Released::Free,
        "the inner claim ended by itself"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_long_inner_lease_does_not_keep_the_name_once_it_has_left() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let (lock, owner, stranger) = (
        ReentrantLock::new(&client, "name"),
        client.new_owner(),
        client.new_owner(),
    );
    let outer = lock
        .acquire()
        .owner(&owner)
        .ttl(Duration::from_secs(1))
        .no_renewal()
        .await?;
    let inner = lock
        .acquire()
        .owner(&owner)
        .ttl(Duration::from_secs(600))
        .no_renewal()
        .await?;
    ensure!(inner.release().await? == Released::StillHeld(1));
    outer.lost().await;
    // The key itself lives on, but its claims do not.
    let begun = tokio::time::Instant::now();
    drop(lock.acquire().owner(&stranger).await?);
    ensure!(
        begun.elapsed() < Duration::from_millis(100),
        "{:?}",
        begun.elapsed()
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reentry_after_another_owner_has_held_is_refused_and_holds_nothing() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let (lock, owner, stranger) = (
        ReentrantLock::new(&client, "name"),
        client.new_owner(),
        client.new_owner(),
    );
    let outer = lock.acquire().owner(&owner).await?;
    server.command(&["DEL", MAIN]).await?;
    drop(lock.acquire().owner(&stranger).await?);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let error = outer.reenter().await.err();
    ensure!(
        matches!(
            error,
            Some(Error::Lost {
                reason: LossReason::Gone,
                ..
            })
        ),
        "{error:?}"
    );
    tokio::time::sleep(Duration::from_millis(1)).await;
    ensure!(
        server.command(&["EXISTS", MAIN]).await? == "0",
        "the attempt left a hold behind"
    );
    Ok(())
}

/// The owner is passed to a child process as text; the child is then killed.
#[tokio::test]
async fn a_child_process_reenters_and_its_death_ends_only_its_own_claim() -> Result<()> {
    let server = Server::start().await?;
    let client = server.client(patient()).await?;
    let (lock, owner) = (ReentrantLock::new(&client, "name"), client.new_owner());
    let outer = lock.acquire().owner(&owner).await?;
    let text = owner.to_string();
    ensure!(text.parse::<Owner>()? == owner);
    beyond_stalls(&server, Duration::from_secs(3), async |ttl| {
        let words = ["reenter", &server.url(), "name", &millis(ttl), &text];
        let mut child = Holder::start(HOLDER, &words)?;
        let held = child.line().await?;
        assert!(held == format!("held {}", outer.fencing_token()), "{held}");
        let both = holds(&client).await?;
        child.kill().await?;
        // Its lease ends by itself; releasing the outer one then frees the lock.
        until(async || Ok(holds(&client).await? == 1)).await?;
        ensure!(both == 2, "{both} holds");
        Ok(())
    })
    .await?;
    outer.verify().await?;
    ensure!(outer.release().await? == Released::Free);
    ensure!(server.command(&["EXISTS", MAIN]).await?.into_text()? == "0");
    Ok(())
}
