//! Grants that count only when replicas have them.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper::{Error, FairLock, MultiLock, Mutex, RwLock, Semaphore};
use lockkeeper_core::store::Store as _;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::proxy::Proxy;
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use lockkeeper_tests::{client, counter, patient};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// A request may take a sixth of this.
const TTL: Duration = Duration::from_secs(6);
const REQUEST: Duration = Duration::from_secs(1);
const KEY: &str = "lockkeeper:name";

/// The replicas that had the grant which does not count, out of those required.
fn counts<T>(outcome: Result<T, Error>) -> Result<(u64, u32)> {
    match outcome {
        Err(Error::NotReplicated {
            wanted, reached, ..
        }) => Ok((reached, wanted)),
        Err(error) => Err(error.into()),
        Ok(_) => bail!("it counted"),
    }
}

async fn is_there(server: &Server, key: &str) -> Result<bool> {
    Ok(server.command(&["EXISTS", key]).await?.into_text()? == "1")
}

/// Waits until this many clients wait for replicas.
async fn blocked(server: &Server, number: u64) -> Result<()> {
    let expected = format!("blocked_clients:{number}\r\n");
    let blocked = async {
        loop {
            let info = server.command(&["INFO", "clients"]).await?.into_text()?;
            if info.contains(&expected) {
                return Ok(());
            }
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, blocked).await?
}

#[tokio::test]
async fn a_grant_counts_once_a_replica_has_it() -> Result<()> {
    let primary = Server::start().await?;
    let replica = primary.start_replica().await?;
    let client = primary.client(patient()).await?;
    let lock = Mutex::new(&client, "name");
    for round in 0..200 {
        let guard = match round % 2 {
            0 => lock.acquire().min_replicas(1).await?,
            _ => lock.try_acquire().min_replicas(1).await?.context("held")?,
        };
        let fence = replica.command(&["GET", &counter("name")?]).await?;
        let fence = fence.into_text()?;
        ensure!(fence == guard.fencing_token().to_string(), "round {round}");
        ensure!(is_there(&replica, KEY).await?, "round {round}");
        guard.release().await?;
    }
    // The name of the second lock is inflated.
    let book = RwLock::new(&client, "book");
    let guard = book.read().min_replicas(1).await?;
    book.read().min_replicas(1).await?.release().await?;
    ensure!(is_there(&replica, "lockkeeper:book").await?);
    guard.release().await?;
    let permits = Semaphore::new(&client, "permits", 4);
    let permit = permits.acquire().min_replicas(1).await?;
    ensure!(is_there(&replica, "lockkeeper:permits").await?);
    permit.release().await?;
    let both = MultiLock::new([&Mutex::new(&client, "a"), &Mutex::new(&client, "b")])?;
    let guard = both.acquire().min_replicas(1).await?;
    ensure!(is_there(&replica, "lockkeeper:a").await? && is_there(&replica, "lockkeeper:b").await?);
    guard.release().await?;
    let fixed = lock.acquire().no_renewal().min_replicas(1).await?;
    ensure!(fixed.remaining() > TTL, "{:?}", fixed.remaining());
    Ok(())
}

#[tokio::test]
async fn with_the_replica_stopped_acquiring_fails_in_time_and_leaves_nothing() -> Result<()> {
    let primary = Server::start().await?;
    let replica = primary.start_replica().await?;
    replica.freeze()?;
    beyond_stalls(&primary, REQUEST, async |request| {
        let client = client(&primary, request * 6).await?;
        let lock = Mutex::new(&client, "name");
        let begun = Instant::now();
        let asking = lock
            .acquire()
            .min_hold(Duration::from_secs(60))
            .min_replicas(1);
        let asking = tokio::spawn(asking.into_future());
        blocked(&primary, 1).await?;
        // No other acquire is delayed.
        let other = Mutex::new(&client, "other").acquire().await?;
        other.release().await?;
        ensure!(!asking.is_finished());

        let first = counts(asking.await?)?;
        let took = begun.elapsed();
        ensure!(first == (0, 1), "{first:?}");
        ensure!(took < request * 2, "{took:?}");
        assert!(!is_there(&primary, KEY).await?);
        println!("without its replica the grant was given back after {took:?}");

        // The time limit is for the wait for the lock. It does not bound the wait for replicas, because the lock is held
        // meanwhile.
        let short = lock.acquire().min_replicas(1).wait_for(request / 4).await;
        ensure!(counts(short)? == (0, 1));
        Ok(())
    })
    .await?;

    replica.thaw()?;
    let lock = Mutex::new(&primary.client(patient()).await?, "name");
    lock.acquire().min_replicas(1).await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn more_replicas_than_there_are_never_have_it() -> Result<()> {
    let primary = Server::start().await?;
    let _replica = primary.start_replica().await?;
    // No server reports that there is no second replica, so the request waits for its whole timeout.
    beyond_stalls(&primary, REQUEST * 5, async |request| {
        let client = primary.client(patient().request_timeout(request)).await?;
        let lock = Mutex::new(&client, "name");
        let outcome = lock.acquire().min_replicas(2).await;
        let told = outcome.as_ref().err().map(ToString::to_string);
        ensure!(told.is_some_and(|told| told.contains("only 1 of the 2 required replicas")));
        ensure!(counts(outcome)? == (1, 2));
        ensure!(!is_there(&primary, KEY).await?);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_grant_by_message_counts_once_a_replica_has_it() -> Result<()> {
    let primary = Server::start().await?;
    let replica = primary.start_replica().await?;
    let one = primary.client(patient()).await?;
    let by_message = async |name: &str, stopped: bool, request: Duration| {
        let key = format!("lockkeeper:{name}");
        let lock = FairLock::new(&one, name);
        let other = primary.client(patient().request_timeout(request)).await?;
        let queue = FairLock::new(&other, name);
        let guard = lock.acquire().await?;
        let asking = tokio::spawn(queue.acquire().min_replicas(1).into_future());
        while lock.queue_len().await? != 1 {
            sleep(Duration::from_millis(1)).await;
        }
        let next = tokio::spawn(lock.acquire().into_future());
        while lock.queue_len().await? != 2 {
            sleep(Duration::from_millis(1)).await;
        }
        guard.release().await?;
        let outcome = timeout(PATIENCE, asking).await??;
        if stopped {
            ensure!(counts(outcome)? == (0, 1));
        } else {
            let guard = outcome?;
            let value = replica.command(&["LINDEX", &key, "0"]).await?.into_text()?;
            let token = guard.fencing_token().to_string();
            ensure!(value.split(' ').any(|word| word == token), "{value}");
            guard.release().await?;
        }
        // The next waiter is served.
        timeout(PATIENCE, next).await???.release().await?;
        ensure!(!is_there(&primary, &key).await?);
        Ok(())
    };
    by_message("name", false, PATIENCE).await?;
    replica.freeze()?;
    // A name for each attempt.
    beyond_stalls(&primary, REQUEST, async |request| {
        by_message(&format!("{request:?}"), true, request).await
    })
    .await
}

#[tokio::test]
async fn who_stops_waiting_for_replicas_leaves_nothing() -> Result<()> {
    let primary = Server::start().await?;
    let replica = primary.start_replica().await?;
    let client = primary.client(patient()).await?;
    replica.freeze()?;
    let lock = Mutex::new(&client, "name");
    let asking = tokio::spawn(lock.acquire().min_replicas(1).into_future());
    blocked(&primary, 1).await?;
    asking.abort();
    timeout(PATIENCE, primary.vanished(KEY)).await??;
    blocked(&primary, 0).await?;

    // So does a client that is closed during the wait.
    let asking = tokio::spawn(lock.acquire().min_replicas(1).into_future());
    blocked(&primary, 1).await?;
    let report = client.close().await;
    ensure!(report.unconfirmed + report.expiring == 0, "{report:?}");
    ensure!(matches!(asking.await?, Err(Error::Closed)));
    ensure!(!is_there(&primary, KEY).await?);
    Ok(())
}

#[tokio::test]
async fn a_question_to_the_replicas_that_is_cut_on_its_way_is_asked_again() -> Result<()> {
    let primary = Server::start().await?;
    let replica = primary.start_replica().await?;
    let proxy = Proxy::in_front_of(&primary).await?;
    let client = lockkeeper::connect_with(proxy.url(), patient()).await?;
    let lock = Mutex::new(&client, "name");

    // The reply is lost.
    proxy.lose_reply_to("\r\nWAIT\r\n");
    let guard = timeout(PATIENCE, lock.acquire().min_replicas(1)).await??;
    ensure!(proxy.so_far().cut == 1, "nothing was cut");
    ensure!(is_there(&replica, KEY).await?);
    guard.release().await?;

    // The server is still waiting.
    replica.freeze()?;
    let asking = tokio::spawn(lock.acquire().min_replicas(1).into_future());
    blocked(&primary, 1).await?;
    proxy.reset_all();
    blocked(&primary, 0).await?;
    ensure!(!asking.is_finished(), "without its replica it cannot count");
    replica.thaw()?;
    let guard = timeout(PATIENCE, asking).await???;
    ensure!(is_there(&replica, KEY).await?);
    guard.release().await?;
    ensure!(!is_there(&primary, KEY).await?);
    Ok(())
}

#[tokio::test]
async fn a_question_to_the_replicas_that_stays_without_answer_is_an_error_and_leaves_nothing()
-> Result<()> {
    let primary = Server::start().await?;
    let replica = primary.start_replica().await?;
    let proxy = Proxy::in_front_of(&primary).await?;
    replica.freeze()?;
    beyond_stalls(&primary, REQUEST * 4, async |request| {
        // The lease would last longer than this test waits. The request lasts until it is cut.
        let settings = patient().request_timeout(request);
        let client = lockkeeper::connect_with(proxy.url(), settings).await?;
        let lock = Mutex::new(&client, "name");
        let asking = tokio::spawn(lock.acquire().min_replicas(1).into_future());
        let blocked = blocked(&primary, 1).await;
        proxy.refuse(true);
        proxy.reset_all();
        let outcome = timeout(PATIENCE, asking).await??;
        let left = is_there(&primary, KEY).await?;
        proxy.refuse(false);
        timeout(PATIENCE, primary.vanished(KEY)).await??;
        blocked?;
        let error = outcome.unwrap_err();
        ensure!(error.is_transient(), "{error:?}");
        ensure!(error.to_string().contains("replicas"), "{error}");
        ensure!(left, "nobody could give it back");
        Ok(())
    })
    .await?;
    replica.thaw()
}

#[tokio::test]
async fn many_wait_for_replicas_at_once() -> Result<()> {
    let primary = Server::start().await?;
    let _replica = primary.start_replica().await?;
    let client = primary.client(patient()).await?;
    let mut asking = JoinSet::new();
    for number in 0..100 {
        let lock = Mutex::new(&client, &format!("name {number}"));
        asking.spawn(lock.acquire().min_replicas(1).into_future());
    }
    let mut guards = Vec::new();
    while let Some(guard) = timeout(PATIENCE, asking.join_next()).await? {
        guards.push(guard??);
    }
    let clients = primary
        .command(&["CLIENT", "LIST", "TYPE", "normal"])
        .await?;
    let connections = clients.into_text()?.lines().count();
    // One for scripts, one for this query, and those that wait for replicas.
    ensure!(connections <= 18, "{connections} connections");
    println!("100 acquired at once; {connections} connections");
    ensure!(guards.len() == 100);
    Ok(())
}

#[tokio::test]
async fn an_engine_in_this_process_has_no_replicas() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let lock = Mutex::new(&client, "name");
    ensure!(counts(lock.acquire().min_replicas(1).await)? == (0, 1));
    ensure!(Site::keys(&server).await?.iter().all(|key| key != KEY));
    lock.acquire().min_replicas(0).await?.release().await?;
    server.close().await;
    Ok(())
}

#[tokio::test]
async fn each_node_of_a_cluster_has_replicas_of_its_own() -> Result<()> {
    let cluster = Cluster::options().start().await?;
    let client = cluster.client(patient()).await?;
    beyond_stalls(&cluster, REQUEST, async |request| {
        let brief = cluster.client(patient().request_timeout(request)).await?;
        for number in 0..6 {
            let name = format!("name {number}");
            let (lock, short) = (Mutex::new(&client, &name), Mutex::new(&brief, &name));
            lock.acquire().min_replicas(1).await?.release().await?;
            ensure!(counts(short.acquire().min_replicas(2).await)? == (1, 2));
        }
        Ok(())
    })
    .await?;
    // The slot migrates: when the replicas are asked, its new node has them.
    let name = "lockkeeper:wanders";
    let slot = cluster.slot_of(name).await?;
    let from = cluster.primary_of(slot).await?;
    let to = (from + 1) % 3;
    let lock = Mutex::new(&client, "wanders");
    cluster.begin_migration(slot, from, to).await?;
    cluster.move_keys(slot, from, to).await?;
    cluster.end_migration(slot, from, to).await?;
    let guard = timeout(PATIENCE, lock.acquire().min_replicas(1)).await??;
    guard.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_question_to_the_replicas_of_a_slot_on_the_move_that_is_cut_is_asked_again() -> Result<()>
{
    let cluster = Cluster::start().await?;
    let client = cluster.client(patient()).await?;
    let slot = cluster.slot_of(KEY).await?;
    let from = cluster.primary_of(slot).await?;
    let to = (from + 1) % 3;
    // Not as the cluster's: then a primary that stalls would be suspected too.
    let replicas = &cluster.nodes()[3..];
    replicas.iter().try_for_each(Server::freeze)?;
    let lock = Mutex::new(&client, "name");
    let asking = tokio::spawn(lock.acquire().min_replicas(1).into_future());
    blocked(&cluster.nodes()[from], 1).await?;
    // The key moves before its slot: a repeated request is redirected to the new node, over a new connection each time.
    cluster.begin_migration(slot, from, to).await?;
    cluster.move_keys(slot, from, to).await?;
    for node in [from, to] {
        let node = &cluster.nodes()[node];
        blocked(node, 1).await?;
        node.command(&["CLIENT", "KILL", "TYPE", "normal"]).await?;
    }
    ensure!(!asking.is_finished(), "without its replica it cannot count");
    replicas.iter().try_for_each(Server::thaw)?;
    let guard = timeout(PATIENCE, asking).await???;
    guard.release().await?;
    cluster.end_migration(slot, from, to).await?;
    ensure!(cluster.keys().await?.iter().all(|key| key != KEY));
    Ok(())
}

#[tokio::test]
async fn behind_sentinels_the_replicas_of_the_new_primary_count() -> Result<()> {
    let watched = Watched::start().await?;
    let client = watched.client(patient()).await?;
    let lock = Mutex::new(&client, "name");
    lock.acquire().min_replicas(1).await?.release().await?;
    watched.switch().await?;
    watched.switched_to(1).await?;
    watched.healed().await?;
    let counted = async {
        // The old primary takes some time to become a replica.
        loop {
            match lock.acquire().min_replicas(1).await {
                Ok(guard) => return guard.release().await,
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error),
            }
        }
    };
    timeout(PATIENCE, counted).await??;
    Ok(())
}
