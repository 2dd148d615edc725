//! The Redlock on real servers, some of which are killed, stopped, delayed, or restarted without their data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, Error, LeaseState, Redlock, RedlockGuard};
use lockkeeper_lua::{lock, redlock};
use lockkeeper_testkit::history::{History, ValidSpan, now};
use lockkeeper_testkit::proxy::{Direction, Proxy};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Short, because servers that have just started do not take part for this long.
const TTL: Duration = Duration::from_secs(2);

const SOON: Duration = Duration::from_secs(60);

const MAIN: &str = "lockkeeper:name";

async fn five() -> Result<Vec<Server>> {
    let mut servers = Vec::new();
    for _ in 0..5 {
        servers.push(Server::start().await?);
    }
    Ok(servers)
}

async fn lock(urls: impl IntoIterator<Item = String>) -> Result<(Redlock, Vec<Client>)> {
    let mut clients = Vec::new();
    for url in urls {
        clients.push(lockkeeper::connect_later(&url, Client::builder().ttl(TTL)).await?);
    }
    Ok((Redlock::new(&clients, "name")?, clients))
}

async fn lock_on(servers: &[Server]) -> Result<(Redlock, Vec<Client>)> {
    lock(servers.iter().map(Server::url)).await
}

async fn acquired(lock: &Redlock) -> Result<RedlockGuard> {
    Ok(timeout(SOON, lock.acquire().into_future()).await??)
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
    timeout(SOON, acquired).await?
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_with_two_killed_and_refuses_promptly_with_three() -> Result<()> {
    let mut servers = five().await?;
    let (lock, _clients) = lock_on(&servers).await?;
    acquired(&lock).await?.release().await?;
    for server in &mut servers[..2] {
        server.kill()?;
    }
    let guard = acquired(&lock).await?;
    ensure!(guard.valid_parts() == 3, "{guard:?}");
    let (other, _others) = lock_on(&servers).await?;
    ensure!(
        other.try_acquire().await?.is_none(),
        "a second process got in"
    );
    sleep(TTL * 2).await;
    ensure!(guard.state() == LeaseState::Held, "{guard:?}");
    guard.release().await?;
    // A process that starts while two servers are down.
    acquired(&other).await?.release().await?;

    servers[2].kill()?;
    // Its clients need time to notice that the server is gone.
    sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    let error = lock.try_acquire().await.unwrap_err();
    ensure!(begun.elapsed() < TTL / 2, "it took {:?}", begun.elapsed());
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_a_server_that_is_killed_and_comes_back_empty() -> Result<()> {
    let mut servers = five().await?;
    let (lock, _clients) = lock_on(&servers).await?;
    let (other, _others) = lock_on(&servers).await?;
    let guard = acquired_on_all(&lock, 5).await?;
    servers[1].restart().await?;
    ensure!(!servers[1].keys().await?.contains(&MAIN.to_owned()));
    for _ in 0..20 {
        sleep(TTL / 10).await;
        ensure!(
            guard.state() != LeaseState::Released && guard.ensure_held().is_ok(),
            "{guard:?}"
        );
        ensure!(other.try_acquire().await?.is_none());
    }
    ensure!(guard.valid_parts() == 4, "{guard:?}");
    guard.verify().await?;
    let token = guard.fencing_token();
    guard.release().await?;
    let next = acquired_on_all(&other, 5).await?;
    ensure!(next.fencing_token() > token, "{next:?}");
    next.release().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_costs_a_little_time_and_no_more() -> Result<()> {
    let servers = five().await?;
    let (lock, _clients) = lock_on(&servers).await?;
    acquired(&lock).await?.release().await?;
    servers[0].freeze()?;
    servers[4].freeze()?;
    let begun = Instant::now();
    let guard = acquired(&lock).await?;
    // A request waits for a sixth of the ttl, and a busy machine may need a second round.
    ensure!(
        guard.valid_parts() == 3 && begun.elapsed() < TTL * 3 / 4,
        "{:?}",
        begun.elapsed()
    );
    guard.release().await?;
    // The requests from before it was stopped must not revive a hold.
    servers[0].thaw()?;
    servers[4].thaw()?;
    timeout(SOON, servers[0].vanished(MAIN)).await??;
    timeout(SOON, servers[4].vanished(MAIN)).await??;
    let guard = acquired(&lock).await?;
    guard.release().await?;
    Ok(())
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
                 +subscribe +unsubscribe +del +exists +get +getex +mget +pexpire +pttl +publish +set +time";
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
    let (able, _clients) = lock(urls("able")).await?;
    let guard = acquired_on_all(&able, 3).await?;
    guard.verify().await?;
    guard.release().await?;
    let (unable, _clients) = lock(urls("unable")).await?;
    let error = unable.try_acquire().await.unwrap_err().to_string();
    // Two of three servers are enough to decide.
    let told = error.contains("2 of which failed") || error.contains("3 of which failed");
    ensure!(told && error.contains("the server refused"), "{error}");
    Ok(())
}

/// A small random number generator, good enough for chaos.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX constants.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn place(&mut self) -> usize {
        usize::try_from(self.roll(5)).unwrap_or(0)
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.roll(most))
    }
}

/// Kills, stops, delays and cuts one server after the other.
async fn chaos(
    servers: &mut [Server],
    proxies: &[Proxy],
    dice: &mut Dice,
    end: Instant,
) -> Result<()> {
    while Instant::now() < end {
        let place = dice.place();
        match dice.roll(6) {
            0 => servers[place].restart().await?,
            1 => {
                servers[place].freeze()?;
                sleep(dice.millis(1_500)).await;
                servers[place].thaw()?;
            }
            2 => {
                proxies[place].delay(Direction::ToServer, dice.millis(300));
                proxies[place].delay(Direction::ToClient, dice.millis(300));
                sleep(dice.millis(1_000)).await;
                proxies[place].clear();
            }
            3 => proxies[place].lose_reply_to(redlock::ACQUIRE.sha1),
            4 => proxies[place].lose_reply_to(lock::RELEASE_THIN.sha1),
            _ => proxies[place].reset_all(),
        }
        sleep(dice.millis(300)).await;
    }
    for proxy in proxies {
        proxy.clear();
    }
    Ok(())
}

/// Takes the lock again and again, and records when it was valid.
async fn work(lock: Redlock, holder: String, end: watch::Receiver<bool>) -> Vec<ValidSpan> {
    let mut spans = Vec::new();
    while !*end.borrow() {
        let Ok(guard) = lock.acquire().wait_for(TTL * 2).await else {
            continue;
        };
        let from = now();
        let token = guard.fencing_token().get();
        let until = loop {
            let before = now();
            // A recorded span was valid for certain: the clock is read before the check.
            if guard.ensure_held().is_err() {
                break None;
            }
            if before - from > 100_000_000 {
                break Some(before);
            }
            sleep(Duration::from_millis(5)).await;
        };
        let holder = holder.clone();
        spans.extend(until.map(|until| ValidSpan {
            from,
            until,
            token,
            shared: false,
            holder,
        }));
        let _ = guard.release().await;
    }
    spans
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_two_hold_and_tokens_increase_whatever_befalls_the_servers() -> Result<()> {
    let mut servers = five().await?;
    let mut proxies = Vec::new();
    for server in &servers {
        proxies.push(Proxy::in_front_of(server).await?);
    }
    let (stop, end) = watch::channel(false);
    let mut workers = JoinSet::new();
    let mut all = Vec::new();
    for number in 0..4 {
        let urls = proxies.iter().map(|proxy| proxy.url().to_owned());
        let (lock, clients) = lock(urls).await?;
        all.extend(clients);
        workers.spawn(work(lock, format!("worker {number}"), end.clone()));
    }
    let seed = now();
    println!("seed {seed}");
    let time = Duration::from_secs(12);
    chaos(
        &mut servers,
        &proxies,
        &mut Dice(seed),
        Instant::now() + time,
    )
    .await?;
    stop.send_replace(true);
    let history = Arc::new(History::default());
    let mut number = 0;
    while let Some(spans) = timeout(SOON, workers.join_next()).await? {
        for span in spans? {
            number += 1;
            history.record(span);
        }
    }
    history.check().with_context(|| format!("seed {seed}"))?;
    ensure!(number > 5, "only {number} grants");
    // Without faults, everything becomes quiet again.
    let (lock, _clients) = lock_on(&servers).await?;
    acquired(&lock).await?.release().await?;
    for server in &servers {
        timeout(SOON, server.vanished(MAIN)).await??;
    }
    Ok(())
}
