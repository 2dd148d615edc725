//! The Redlock on real servers, some of which are killed, stopped, delayed, or restarted without their data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use lockkeeper::{Client, Error, LeaseState, Redlock, RedlockGuard};
use lockkeeper_lua::redlock;
use lockkeeper_testkit::history::now;
use lockkeeper_testkit::proxy::{Direction, Proxy};
use lockkeeper_testkit::recorded::{self, Job, Process, Records};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::proofs::recorded::Ways;

/// Short, because servers that have just started do not take part for this long.
const TTL: Duration = Duration::from_secs(2);

const MAIN: &str = "lockkeeper:name";

async fn five() -> Result<Vec<Server>> {
    let mut servers = Vec::new();
    for _ in 0..5 {
        servers.push(Server::start().await?);
    }
    Ok(servers)
}

async fn lock(
    urls: impl IntoIterator<Item = String>,
    ttl: Duration,
) -> Result<(Redlock, Vec<Client>)> {
    let mut clients = Vec::new();
    for url in urls {
        clients.push(lockkeeper::connect_later(&url, Client::builder().ttl(ttl)).await?);
    }
    Ok((Redlock::new(&clients, "name")?, clients))
}

async fn lock_on(servers: &[Server], ttl: Duration) -> Result<(Redlock, Vec<Client>)> {
    lock(servers.iter().map(Server::url), ttl).await
}

/// Calls `attempt` with five servers and a ttl that the machine can keep.
async fn on_five_servers(
    mut attempt: impl AsyncFnMut(Vec<Server>, Duration) -> Result<()>,
) -> Result<()> {
    let witness = Server::start().await?;
    beyond_stalls(&witness, TTL, async |ttl| attempt(five().await?, ttl).await).await
}

async fn acquired(lock: &Redlock) -> Result<RedlockGuard> {
    Ok(timeout(PATIENCE, lock.acquire().into_future()).await??)
}

/// Acquires until all of these servers take part: new or slow ones do so only in a later round.
async fn acquired_on_all(lock: &Redlock, servers: usize) -> Result<RedlockGuard> {
    let acquired = async {
        loop {
            let guard = acquired(lock).await?;
            if guard.valid_parts() == servers {
                return anyhow::Ok(guard);
            }
            guard.release().await?;
        }
    };
    timeout(PATIENCE, acquired).await?
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_with_two_killed_and_refuses_promptly_with_three() -> Result<()> {
    on_five_servers(async |mut servers, ttl| {
        let (lock, _clients) = lock_on(&servers, ttl).await?;
        acquired(&lock).await?.release().await?;
        for server in &mut servers[..2] {
            server.kill()?;
        }
        let guard = acquired(&lock).await?;
        ensure!(guard.valid_parts() == 3, "{guard:?}");
        let (other, _others) = lock_on(&servers, ttl).await?;
        let second = other.try_acquire().await?;
        assert!(second.is_none() || guard.ensure_held().is_err());
        sleep(ttl * 2).await;
        ensure!(guard.state() == LeaseState::Held, "{guard:?}");
        guard.release().await?;
        // A process that starts while two servers are down.
        acquired(&other).await?.release().await?;

        servers[2].kill()?;
        // Its clients need time to notice that the server is gone.
        sleep(Duration::from_millis(200)).await;
        let begun = Instant::now();
        let error = lock.try_acquire().await.unwrap_err();
        ensure!(begun.elapsed() < ttl / 2, "it took {:?}", begun.elapsed());
        ensure!(matches!(error, Error::Backend { .. }), "{error}");
        let text = error.to_string();
        for (place, server) in servers.iter().enumerate() {
            let named = text.contains(&format!("server {} (", place + 1))
                && text.contains(&server.port().to_string());
            ensure!(named == (place < 3), "server {}: {text}", place + 1);
        }
        // The server comes back without its data, and takes part once it has been up for one ttl.
        servers[2].restart().await?;
        let guard = acquired(&lock).await?;
        ensure!(guard.valid_parts() == 3);
        guard.release().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_a_server_that_is_killed_and_comes_back_empty() -> Result<()> {
    on_five_servers(async |mut servers, ttl| {
        let (lock, _clients) = lock_on(&servers, ttl).await?;
        let (other, _others) = lock_on(&servers, ttl).await?;
        let guard = acquired_on_all(&lock, 5).await?;
        servers[1].restart().await?;
        ensure!(!servers[1].keys().await?.contains(&MAIN.to_owned()));
        for _ in 0..20 {
            sleep(ttl / 10).await;
            ensure!(
                guard.state() != LeaseState::Released && guard.ensure_held().is_ok(),
                "{guard:?}"
            );
            let second = other.try_acquire().await?;
            assert!(second.is_none() || guard.ensure_held().is_err());
        }
        ensure!(guard.valid_parts() == 4, "{guard:?}");
        guard.verify().await?;
        let token = guard.fencing_token();
        guard.release().await?;
        let next = acquired_on_all(&other, 5).await?;
        assert!(next.fencing_token() > token, "{next:?}");
        next.release().await?;
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_costs_a_little_time_and_no_more() -> Result<()> {
    on_five_servers(async |servers, ttl| {
        let (lock, _clients) = lock_on(&servers, ttl).await?;
        acquired(&lock).await?.release().await?;
        servers[0].freeze()?;
        servers[4].freeze()?;
        let begun = Instant::now();
        let guard = acquired(&lock).await?;
        // A request waits for a sixth of the ttl, and a busy machine may need a second round.
        ensure!(
            guard.valid_parts() == 3 && begun.elapsed() < ttl * 3 / 4,
            "{:?}",
            begun.elapsed()
        );
        guard.release().await?;
        // The requests from before it was stopped must not revive a hold.
        servers[0].thaw()?;
        servers[4].thaw()?;
        timeout(PATIENCE, servers[0].vanished(MAIN)).await??;
        timeout(PATIENCE, servers[4].vanished(MAIN)).await??;
        let guard = acquired(&lock).await?;
        guard.release().await?;
        Ok(())
    })
    .await
}

/// The rights as the wire format lists them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_that_it_needs_are_the_ones_that_are_named() -> Result<()> {
    let servers = [
        Server::start().await?,
        Server::start().await?,
        Server::start().await?,
    ];
    let rules = "on >pw resetkeys resetchannels ~lockkeeper:* ~lockkeeper.*:{lockkeeper:* &lockkeeper.*:{lockkeeper:* &lockkeeper.client:* -@all +ping +evalsha +eval \
                 +subscribe +unsubscribe +del +exists +lindex +lrem +lset +mget +pexpire +pttl +publish +rpush +set +time";
    for server in &servers {
        for (name, more) in [("able", "+info"), ("unable", "-info")] {
            let mut words = vec!["ACL", "SETUSER", name];
            words.extend(rules.split_whitespace().chain([more]));
            server.command(&words).await?;
        }
    }
    let urls = |name: &'static str| {
        let url = move |server: &Server| format!("redis://{name}:pw@{}", server.address());
        servers.iter().map(url)
    };
    beyond_stalls(&servers[0], TTL, async |ttl| {
        let (able, _clients) = lock(urls("able"), ttl).await?;
        let guard = acquired_on_all(&able, 3).await?;
        guard.verify().await?;
        guard.release().await?;
        let (unable, _clients) = lock(urls("unable"), ttl).await?;
        let error = unable.try_acquire().await.unwrap_err().to_string();
        // Two of three servers are enough to decide.
        let told = error.contains("2 of which failed") || error.contains("3 of which failed");
        ensure!(told && error.contains("the server refused"), "{error}");
        Ok(())
    })
    .await
}

/// Kills, stops, delays and cuts one server after the other.
async fn chaos(
    servers: &mut [Server],
    proxies: &[Proxy],
    dice: &mut Rng,
    end: Instant,
) -> Result<()> {
    let millis = |dice: &mut Rng, most| Duration::from_millis(dice.u64(..most));
    while Instant::now() < end {
        let place = dice.usize(..servers.len());
        match dice.u8(..6) {
            0 => servers[place].restart().await?,
            1 => {
                servers[place].freeze()?;
                sleep(millis(dice, 1_500)).await;
                servers[place].thaw()?;
            }
            2 => {
                proxies[place].delay(Direction::ToServer, millis(dice, 300));
                proxies[place].delay(Direction::ToClient, millis(dice, 300));
                sleep(millis(dice, 1_000)).await;
                proxies[place].clear();
            }
            3 => proxies[place].lose_reply_to(redlock::ACQUIRE.sha1),
            4 => proxies[place].lose_reply_to("LREM"),
            _ => proxies[place].reset_all(),
        }
        sleep(millis(dice, 300)).await;
    }
    for proxy in proxies {
        proxy.clear();
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_two_hold_and_tokens_increase_whatever_befalls_the_servers() -> Result<()> {
    let mut servers = five().await?;
    let ways = Ways::to(&servers).await?;
    let job = Job::Majority(0);
    let records = Arc::new(Records::of(&[job]).at_least(6));
    let end = Instant::now() + Duration::from_secs(12);
    let mut tasks = JoinSet::new();
    let mut processes = Vec::new();
    for _ in 0..4 {
        let clients = ways.clients(&records, Client::builder().ttl(TTL)).await?;
        let (process, records) = (Process::new(clients), Arc::clone(&records));
        processes.push(process.clone());
        tasks.spawn(async move { recorded::work(job, process, &records, end).await });
    }
    let seed = now();
    println!("seed {seed}");
    let mut dice = Rng::with_seed(seed);
    chaos(&mut servers, &ways.0, &mut dice, end).await?;
    while let Some(task) = timeout(PATIENCE, tasks.join_next()).await? {
        task??;
    }
    let grants = records.check().with_context(|| format!("seed {seed}"))?;
    println!("{grants} grants, {records}");
    // Without faults, everything becomes quiet again.
    recorded::serve(&[job], &processes[0], &records).await?;
    for server in &servers {
        recorded::nothing_remains(server).await?;
    }
    Ok(())
}
