//! What is done to a lock from outside: inspected, revoked, taken by force; and what of it may get lost.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Client, End, Error, HolderState, LossReason, Mutex, ReentrantLock, Released};
use lockkeeper_core::store::Store;
use lockkeeper_lua::{mutex, reentrant};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::unruly::{Fate, Unruly};
use tokio::time::{Instant, sleep, timeout};

const SOON: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(6);

async fn client(server: &MemoryStore) -> Result<Client> {
    server.client(Client::builder().ttl(TTL)).await
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_no_message_reaches_learns_of_a_revocation_by_its_renewal() -> Result<()> {
    let server = MemoryStore::new();
    let (holder, other) = (client(&server).await?, client(&server).await?);
    let guard = Mutex::new(&holder, "name").acquire().await?;
    sleep(Duration::from_millis(1)).await;
    server.mute(true);
    let revoked = Instant::now();
    ensure!(other.revoke("name").await? == 1);
    ensure!(guard.ensure_held().is_ok());
    ensure!(guard.lost().await == LossReason::Revoked);
    ensure!(revoked.elapsed() <= TTL / 3, "{:?}", revoked.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_revocation_reaches_its_holder_in_the_time_of_a_message() -> Result<()> {
    let server = MemoryStore::new();
    let (holder, other) = (client(&server).await?, client(&server).await?);
    let guard = Mutex::new(&holder, "name").acquire().await?;
    sleep(Duration::from_millis(1)).await;
    let revoked = Instant::now();
    let (end, told) = tokio::join!(guard.ended(), other.revoke("name"));
    ensure!(told? == 1);
    ensure!(end == End::Lost(LossReason::Revoked));
    ensure!(
        revoked.elapsed() <= Duration::from_millis(2),
        "{:?}",
        revoked.elapsed()
    );
    Ok(())
}

/// A lease of 30 s is renewed after some 10 s, so what comes without a renewal has come by the message.
#[tokio::test]
async fn a_revocation_on_a_real_server_reaches_its_holder_without_a_renewal() -> Result<()> {
    let server = Server::start().await?;
    let holder = lockkeeper::connect(&server.url()).await?;
    let other = lockkeeper::connect(&server.url()).await?;
    let first = Mutex::new(&holder, "first").acquire().await?;
    // Once it listens, and the server knows all scripts.
    let listening = ["PUBSUB", "CHANNELS", "lockkeeper.client:*"];
    while server.command(&listening).await?.into_texts()?.len() != 1 {
        sleep(Duration::from_millis(5)).await;
    }
    ensure!(other.revoke("first").await? == 1);
    ensure!(timeout(SOON, first.ended()).await? == End::Lost(LossReason::Revoked));
    drop(first);
    server.vanished("lockkeeper:first").await?;

    let guard = Mutex::new(&holder, "name")
        .acquire()
        .ttl(Duration::from_secs(30))
        .await?;
    let before = server.commandstats("evalsha").await?;
    ensure!(other.revoke("name").await? == 1);
    ensure!(timeout(SOON, guard.ended()).await? == End::Lost(LossReason::Revoked));
    let scripts = server.commandstats("evalsha").await? - before;
    ensure!(scripts == 1, "{scripts} scripts for one revocation");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn verify_tells_of_a_revocation() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server).await?;
    server.mute(true);
    let guard = Mutex::new(&client, "name").acquire().await?;
    let lock = ReentrantLock::new(&client, "nested");
    let nested = lock.acquire(&client.new_owner()).await?;
    for name in ["name", "nested"] {
        ensure!(client.revoke(name).await? == 1);
    }
    for error in [guard.verify().await.err(), nested.verify().await.err()] {
        ensure!(
            matches!(
                error,
                Some(Error::Lost {
                    reason: LossReason::Revoked,
                    ..
                })
            ),
            "{error:?}"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_claim_of_a_revoked_owner_is_told_and_no_more_get_in() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server).await?;
    let (lock, owner) = (ReentrantLock::new(&client, "name"), client.new_owner());
    let outer = lock.acquire(&owner).await?;
    let inner = outer.reenter().await?;
    ensure!(client.revoke("name").await? == 2);
    ensure!(outer.ended().await == End::Lost(LossReason::Revoked));
    ensure!(inner.ended().await == End::Lost(LossReason::Revoked));
    ensure!(lock.try_acquire(&owner).await?.is_none());
    drop(inner);
    ensure!(lock.try_acquire(&owner).await?.is_none());
    drop(outer);
    let next = lock
        .acquire(&owner)
        .wait_for(Duration::from_secs(1))
        .await?;
    ensure!(next.release().await? == Released::Free);
    Ok(())
}

/// A process that holds for an owner of another one listens to what that one is told, for as long as it holds.
#[tokio::test]
async fn a_holder_for_another_clients_owner_is_told_too_and_listens_no_longer_than_it_holds()
-> Result<()> {
    let server = Server::start().await?;
    let (maker, holder) = (
        lockkeeper::connect(&server.url()).await?,
        lockkeeper::connect(&server.url()).await?,
    );
    let owner = maker.new_owner();
    let channel = format!("lockkeeper.client:{}", &owner.to_string()[..36]);
    let listening = async |number: &str| -> Result<()> {
        loop {
            let words = ["PUBSUB", "NUMSUB", &*channel];
            if server.command(&words).await?.into_texts()?[1] == number {
                return Ok(());
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let lock = ReentrantLock::new(&holder, "name");
    let guard = lock.acquire(&owner).await?;
    timeout(SOON, listening("1")).await??;
    ensure!(maker.revoke("name").await? == 1);
    ensure!(timeout(SOON, guard.ended()).await? == End::Lost(LossReason::Revoked));
    drop(guard);
    // It lingers for five seconds.
    timeout(2 * SOON, listening("0")).await?
}

/// The answer to the acquire is lost, and before it is repeated the hold is revoked: it must not come back.
#[tokio::test(start_paused = true)]
async fn a_claim_revoked_before_its_grant_was_known_is_given_up() -> Result<()> {
    for reenters in [false, true] {
        let server = MemoryStore::new();
        let unruly = Unruly::new(Arc::new(server.sibling()));
        let holder = Client::builder()
            .ttl(TTL)
            .build(Arc::clone(&unruly) as Arc<dyn Store>)?;
        let other = client(&server).await?;
        let acquire = if reenters {
            &reentrant::ACQUIRE
        } else {
            &mutex::ACQUIRE
        };
        // The server must know the script, or the lost reply is that it does not.
        if reenters {
            let lock = ReentrantLock::new(&other, "name");
            lock.acquire(&other.new_owner()).await?.release().await?;
        } else {
            Mutex::new(&other, "name")
                .acquire()
                .await?
                .release()
                .await?;
        }
        unruly.plan(acquire, Fate::LoseReply);
        let acquiring = tokio::spawn({
            let holder = holder.clone();
            async move {
                if reenters {
                    let lock = ReentrantLock::new(&holder, "name");
                    lock.acquire(&holder.new_owner()).await?.verify().await
                } else {
                    Mutex::new(&holder, "name").acquire().await?.verify().await
                }
            }
        });
        unruly.wait_sent(acquire, 1).await;
        let revoked = other.inspect("name").await?.holders[0].claim.clone();
        ensure!(other.revoke("name").await? == 1);
        timeout(SOON, acquiring).await???;
        let holders = other.inspect("name").await?.holders;
        ensure!(
            holders.iter().all(|holder| holder.claim != revoked),
            "{holders:?}"
        );
    }
    Ok(())
}

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
    ensure!(seen.kind.as_deref() == Some("mutex") && seen.token.is_none());
    let holder = &seen.holders[0];
    ensure!(
        (&*holder.claim, holder.owner, holder.left) == ("their token", None, None),
        "{holder:?}"
    );
    let error = client.revoke("job").await.err();
    ensure!(matches!(error, Some(Error::WrongKind { .. })), "{error:?}");
    ensure!(client.force_release("job", "their token").await?);
    ensure!(Mutex::new(&client, "job").try_acquire().await?.is_some());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_that_holds_no_lock_is_told_from_a_free_one_and_left_alone() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server).await?;
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
async fn a_kept_name_is_shown_as_kept_and_can_only_be_forced() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server).await?;
    let (lock, owner) = (ReentrantLock::new(&client, "nested"), client.new_owner());
    let minute = Duration::from_secs(60);
    let guard = Mutex::new(&client, "name")
        .acquire()
        .min_hold(minute)
        .await?;
    ensure!(matches!(guard.release().await?, Released::Kept(_)));
    let (outer, inner) = (
        lock.acquire(&owner).await?,
        lock.acquire(&owner).min_hold(minute).await?,
    );
    // While the owner holds, it is only the name's further future that is settled.
    ensure!(inner.release().await? == Released::StillHeld(1));
    outer.reenter().await?.release().await?;
    ensure!(matches!(outer.release().await?, Released::Kept(left) if left <= minute));
    for name in ["name", "nested"] {
        let seen = client.inspect(name).await?;
        let [holder] = &seen.holders[..] else {
            anyhow::bail!("{seen:?}")
        };
        ensure!(holder.state == HolderState::Kept);
        ensure!(holder.left.is_some_and(|left| left <= minute));
        ensure!(client.revoke(name).await? == 0);
        ensure!(client.force_release(name, &holder.claim).await?);
        ensure!(client.inspect(name).await?.kind.is_none());
    }
    ensure!(lock.try_acquire(&owner).await?.is_some());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_leave_that_keeps_and_is_repeated_keeps_no_longer() -> Result<()> {
    for reenters in [false, true] {
        let server = MemoryStore::new();
        let unruly = Unruly::new(Arc::new(server.sibling()));
        let client = Client::builder()
            .ttl(TTL)
            .build(Arc::clone(&unruly) as Arc<dyn Store>)?;
        let (mutex, lock) = (
            Mutex::new(&client, "name"),
            ReentrantLock::new(&client, "name"),
        );
        let shortest = Duration::from_secs(20);
        let started = Instant::now();
        let released = if reenters {
            unruly.plan(&reentrant::LEAVE, Fate::LoseReply);
            let guard = lock.acquire(&client.new_owner()).min_hold(shortest).await?;
            guard.release().await?
        } else {
            unruly.plan(&mutex::LEAVE, Fate::LoseReply);
            mutex.acquire().min_hold(shortest).await?.release().await?
        };
        ensure!(matches!(released, Released::Kept(_)), "{released:?}");
        if reenters {
            lock.acquire(&client.new_owner()).await?.release().await?;
        } else {
            mutex.acquire().await?.release().await?;
        }
        let apart = started.elapsed();
        // The waiters of several clients come in a little apart.
        let late = shortest + Duration::from_millis(100);
        ensure!((shortest..late).contains(&apart), "after {apart:?}");
    }
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
    ensure!(server.keys().is_empty(), "{:?}", server.keys());

    // And it makes itself known again.
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
    let client = client(&server).await?;
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
