//! Revocation: every holder is told exactly once, by whichever way the notice arrives.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{
    Client, End, Error, LeaseEvent, LossReason, Mutex, Observed, Observer, ReentrantLock, Released,
};
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::{client, faulty, patient};
use parking_lot::Mutex as Cell;
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(6);
const MOMENT: Duration = Duration::from_millis(1);

/// Counts lost leases.
#[derive(Debug, Default)]
struct Losses(Cell<Vec<LossReason>>);

impl Observer for Losses {
    fn on_lease(&self, _: &Observed<'_>, _: &str, event: LeaseEvent) {
        if let LeaseEvent::Lost { reason, .. } = event {
            self.0.lock().push(reason);
        }
    }
}

impl Losses {
    fn so_far(&self) -> Vec<LossReason> {
        self.0.lock().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_no_message_reaches_learns_of_a_revocation_by_its_renewal() -> Result<()> {
    let server = MemoryStore::new();
    let (holder, other) = (client(&server, TTL).await?, client(&server, TTL).await?);
    let guard = Mutex::new(&holder, "name").acquire().await?;
    sleep(Duration::from_millis(1)).await;
    server.mute(true);
    let revoked = Instant::now();
    ensure!(other.revoke("name").await? == 1);
    ensure!(guard.ensure_held().is_ok());
    ensure!(guard.lost().await.reason == LossReason::Revoked);
    ensure!(revoked.elapsed() <= TTL / 3, "{:?}", revoked.elapsed());
    Ok(())
}

/// Nothing is renewed within the test, so the notice came by message.
#[tokio::test]
async fn a_revocation_on_a_real_server_reaches_its_holder_without_a_renewal() -> Result<()> {
    let server = Server::start().await?;
    let holder = server.client(patient()).await?;
    let other = server.client(patient()).await?;
    let first = Mutex::new(&holder, "first").acquire().await?;
    // Once the client is subscribed and the server has all scripts.
    let listening = ["PUBSUB", "CHANNELS", "lockkeeper.client:*"];
    while server.command(&listening).await?.into_texts()?.len() != 1 {
        sleep(Duration::from_millis(5)).await;
    }
    ensure!(other.revoke("first").await? == 1);
    ensure!(timeout(PATIENCE, first.ended()).await?.reason() == Some(LossReason::Revoked));
    drop(first);
    server.vanished("lockkeeper:first").await?;

    let guard = Mutex::new(&holder, "name").acquire().await?;
    let before = server.commandstats("evalsha").await?;
    ensure!(other.revoke("name").await? == 1);
    ensure!(timeout(PATIENCE, guard.ended()).await?.reason() == Some(LossReason::Revoked));
    let scripts = server.commandstats("evalsha").await? - before;
    ensure!(scripts == 1, "{scripts} scripts for one revocation");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn verify_tells_of_a_revocation() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    server.mute(true);
    let guard = Mutex::new(&client, "name").acquire().await?;
    let lock = ReentrantLock::new(&client, "nested");
    let nested = lock.acquire().owner(&client.new_owner()).await?;
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
async fn a_loss_that_verify_found_is_told_once() -> Result<()> {
    let server = MemoryStore::new();
    let losses = Arc::new(Losses::default());
    let settings = Client::builder()
        .ttl(TTL)
        .observer(Arc::clone(&losses) as Arc<dyn Observer>);
    let client = server.client(settings).await?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    let nested = ReentrantLock::new(&client, "nested");
    let nested = nested.acquire().owner(&client.new_owner()).await?;
    sleep(MOMENT).await;
    server.mute(true);
    server.execute(&["DEL", "lockkeeper:name"])?;
    ensure!(client.revoke("nested").await? == 1);
    let (one, other) = tokio::join!(guard.verify(), guard.verify());
    ensure!(one.is_err() && other.is_err());
    ensure!(nested.verify().await.is_err());
    sleep(3 * TTL).await;
    let told = losses.so_far();
    ensure!(told == [LossReason::Gone, LossReason::Revoked], "{told:?}");
    drop((guard, nested));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_revoked_holder_is_told_once_however_often_and_whichever_way_it_hears() -> Result<()> {
    let server = MemoryStore::new();
    let losses = Arc::new(Losses::default());
    let settings = Client::builder()
        .ttl(TTL)
        .observer(Arc::clone(&losses) as Arc<dyn Observer>);
    let (client, other) = (server.client(settings).await?, client(&server, TTL).await?);
    let guard = Mutex::new(&client, "name").acquire().await?;
    sleep(MOMENT).await;
    for _ in 0..3 {
        ensure!(other.revoke("name").await? == 1);
        sleep(MOMENT).await;
    }
    ensure!(guard.verify().await.is_err());
    sleep(3 * TTL).await;
    drop(guard);
    client.close().await;
    ensure!(losses.so_far() == [LossReason::Revoked]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_claim_of_a_revoked_owner_is_told_and_no_more_get_in() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let (lock, owner) = (ReentrantLock::new(&client, "name"), client.new_owner());
    let outer = lock.acquire().owner(&owner).await?;
    let inner = outer.reenter().await?;
    ensure!(client.revoke("name").await? == 2);
    ensure!(outer.ended().await.reason() == Some(LossReason::Revoked));
    ensure!(inner.ended().await.reason() == Some(LossReason::Revoked));
    ensure!(lock.try_acquire().owner(&owner).await?.is_none());
    drop(inner);
    ensure!(lock.try_acquire().owner(&owner).await?.is_none());
    drop(outer);
    let next = lock
        .acquire()
        .owner(&owner)
        .wait_for(Duration::from_secs(1))
        .await?;
    ensure!(next.release().await? == Released::Free);
    Ok(())
}

/// A process that holds for another client's owner subscribes to that client's notices, for as long as it holds.
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
    let guard = lock.acquire().owner(&owner).await?;
    timeout(PATIENCE, listening("1")).await??;
    ensure!(maker.revoke("name").await? == 1);
    ensure!(timeout(PATIENCE, guard.ended()).await?.reason() == Some(LossReason::Revoked));
    drop(guard);
    // The subscription lingers for five seconds.
    timeout(PATIENCE, listening("0")).await?
}

/// The reply to the acquire is lost, and the hold is revoked before the acquire is repeated: it must not come back.
#[tokio::test(start_paused = true)]
async fn a_claim_revoked_before_its_grant_was_known_is_given_up() -> Result<()> {
    for reenters in [false, true] {
        let server = MemoryStore::new();
        let (holder, store) = faulty(&server, TTL)?;
        let other = client(&server, TTL).await?;
        // The server must know the script, or the lost reply would be its NOSCRIPT.
        if reenters {
            let lock = ReentrantLock::new(&other, "name");
            lock.acquire()
                .owner(&other.new_owner())
                .await?
                .release()
                .await?;
        } else {
            Mutex::new(&other, "name")
                .acquire()
                .await?
                .release()
                .await?;
        }
        store.plan(&lock::ACQUIRE, Fate::LoseReply);
        let acquiring = tokio::spawn({
            let holder = holder.clone();
            async move {
                if reenters {
                    let lock = ReentrantLock::new(&holder, "name");
                    lock.acquire()
                        .owner(&holder.new_owner())
                        .await?
                        .verify()
                        .await
                } else {
                    Mutex::new(&holder, "name").acquire().await?.verify().await
                }
            }
        });
        store.wait_sent(&lock::ACQUIRE, 1).await;
        let revoked = other.inspect("name").await?.holders[0].claim.clone();
        ensure!(other.revoke("name").await? == 1);
        timeout(PATIENCE, acquiring).await???;
        let holders = other.inspect("name").await?.holders;
        ensure!(
            holders.iter().all(|holder| holder.claim != revoked),
            "{holders:?}"
        );
    }
    Ok(())
}

/// The message and the reply arrive over different connections.
#[tokio::test(start_paused = true)]
async fn a_word_that_overtakes_the_answer_of_the_grant_is_not_lost() -> Result<()> {
    for forced in [false, true] {
        let server = MemoryStore::new();
        let other = client(&server, TTL).await?;
        let (holder, store) = faulty(&server, TTL)?;
        // From here on the client is subscribed and the server knows the script.
        Mutex::new(&holder, "first")
            .acquire()
            .await?
            .release()
            .await?;
        sleep(MOMENT).await;
        store.slow_down(&lock::ACQUIRE, Duration::from_millis(500));
        let acquiring = tokio::spawn({
            let lock = Mutex::new(&holder, "name");
            async move { lock.acquire().no_renewal().await }
        });
        sleep(Duration::from_millis(100)).await;
        let claim = other.inspect("name").await?.holders[0].claim.clone();
        let reason = if forced {
            ensure!(other.force_release("name", &claim).await?);
            LossReason::Gone
        } else {
            ensure!(other.revoke("name").await? == 1);
            LossReason::Revoked
        };
        let guard = acquiring.await??;
        let end = timeout(Duration::from_secs(1), guard.ended()).await;
        ensure!(
            end.as_ref().ok().and_then(End::reason) == Some(reason),
            "{end:?}"
        );
        drop(guard);
        sleep(MOMENT).await;
        ensure!(Mutex::new(&other, "name").try_acquire().await?.is_some());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_listen_does_not_ask_for_it_all_the_time() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    store.refuse_subscriptions("NOPERM no permissions to access the channel");
    let guard = Mutex::new(&client, "name").acquire().await?;
    sleep(Duration::from_secs(600)).await;
    guard.verify().await?;
    let asked = store.subscriptions();
    ensure!(
        (1..=20).contains(&asked),
        "asked {asked} times in ten minutes"
    );
    // Waiting for another holder fails at once, because the client cannot subscribe.
    let (client, store) = faulty(&server, TTL)?;
    store.refuse_subscriptions("NOPERM no permissions to access the channel");
    let waited = Instant::now();
    let waiting = Mutex::new(&client, "name").acquire().await.err();
    ensure!(
        matches!(waiting, Some(Error::Backend { .. })),
        "{waiting:?}"
    );
    ensure!(waited.elapsed() < Duration::from_secs(1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_revocation_right_after_a_clients_first_grant_is_told() -> Result<()> {
    for renewed in [true, false] {
        let server = MemoryStore::new();
        let (holder, other) = (client(&server, TTL).await?, client(&server, TTL).await?);
        let lock = Mutex::new(&holder, "name");
        let guard = match renewed {
            true => lock.acquire().await?,
            false => lock.acquire().no_renewal().await?,
        };
        // Before the client is subscribed to its notices.
        ensure!(other.revoke("name").await? == 1);
        let revoked = Instant::now();
        let end = timeout(TTL / 6, guard.ended()).await;
        ensure!(
            end.as_ref().ok().and_then(End::reason) == Some(LossReason::Revoked),
            "renewed: {renewed}, {end:?} after {:?}",
            revoked.elapsed()
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_revocation_right_after_the_first_grant_is_told_on_a_server() -> Result<()> {
    let server = Server::start().await?;
    let other = lockkeeper::connect(&server.url()).await?;
    for number in 0..20 {
        let holder = server.client(patient()).await?;
        let name = format!("name {number}");
        let guard = Mutex::new(&holder, &name).acquire().await?;
        ensure!(other.revoke(&name).await? == 1);
        // Its renewal is due much later.
        let end = timeout(PATIENCE, guard.ended()).await;
        ensure!(
            end.as_ref().ok().and_then(End::reason) == Some(LossReason::Revoked),
            "{end:?}"
        );
    }
    Ok(())
}
