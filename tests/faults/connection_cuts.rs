//! Connections that are cut after every number of bytes that a hold or a message needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, ClientBuilder, FairLock, Guard, LeaseEvent, Mutex, Observed, Observer, Reader,
    ReentrantLock, Writer,
};
use lockkeeper_testkit::proxy::{Direction, Proxy};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::subject::Subject;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use lockkeeper_tests::{patient, polling};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// How many connections are cut side by side: most of a round is waiting for the next renewal and for the reconnection.
const LANES: u64 = 24;

/// On a machine without stalls. Every 100 ms a renewal, and almost 2 s for each request.
const TTL: Duration = Duration::from_secs(10);

/// Counts renewals.
#[derive(Debug, Default)]
struct Renewals(watch::Sender<u64>);

impl Observer for Renewals {
    fn on_lease(&self, _: &Observed<'_>, _: &str, event: LeaseEvent) {
        if let LeaseEvent::Renewed { .. } = event {
            self.0.send_modify(|count| *count += 1);
        }
    }
}

/// A client whose connections can be cut.
struct Lane {
    proxy: Proxy,
    client: Client,
    renewals: Arc<Renewals>,
}

impl Lane {
    async fn start<S: Subject>(server: &Server, ttl: Duration) -> Result<Self> {
        let renewals = Arc::new(Renewals::default());
        let settings = Client::builder()
            .ttl(ttl)
            .release_timeout(PATIENCE)
            .renewal_fraction(100)
            .observer(Arc::clone(&renewals) as Arc<dyn Observer>);
        let proxy = Proxy::in_front_of(server).await?;
        let client = lockkeeper::connect_with(proxy.url(), settings).await?;
        let lane = Self {
            proxy,
            client,
            renewals,
        };
        // The first round teaches the server the scripts and introduces the client.
        lane.hold::<S>("first round").await?;
        Ok(lane)
    }

    /// Acquires, waits for a renewal and releases.
    async fn hold<S: Subject>(&self, name: &str) -> Result<()> {
        let guard = S::new(&self.client, name).acquire().await?;
        let mut renewals = self.renewals.0.subscribe();
        renewals.changed().await?;
        guard.ensure_held()?;
        Guard::release(guard).await?;
        Ok(())
    }

    /// How many bytes a hold needs at least.
    async fn needed<S: Subject>(&self, direction: Direction) -> Result<u64> {
        let so_far = || self.proxy.so_far().forwarded[direction as usize];
        let renewals = || *self.renewals.0.borrow();
        let (mut needed, mut counted) = (u64::MAX, 0);
        for round in 0.. {
            let before = (so_far(), renewals());
            self.hold::<S>(&name(direction, round)).await?;
            // More than one renewal is not needed.
            if renewals() == before.1 + 1 {
                needed = needed.min(so_far() - before.0);
                counted += 1;
            }
            if counted == 5 {
                break;
            }
        }
        Ok(needed)
    }

    /// A hold while the connection is cut after so many bytes.
    async fn cut<S: Subject>(
        &self,
        direction: Direction,
        bytes: u64,
        other: &Client,
    ) -> Result<()> {
        let name = name(direction, bytes);
        let before = self.proxy.so_far().cut;
        self.proxy.cut_after(direction, bytes);
        timeout(PATIENCE, self.hold::<S>(&name)).await??;
        let seen = self.proxy.so_far();
        ensure!(seen.cut == before + 1, "nothing was cut: {seen:?}");
        let guard = timeout(PATIENCE, S::new(other, &name).acquire().into_future()).await??;
        Guard::release(guard).await?;
        Ok(())
    }
}

/// Of one length for every number, so that every hold needs as many bytes.
fn name(direction: Direction, bytes: u64) -> String {
    format!("{direction:?} {bytes:04}")
}

async fn cut_after_every_byte<S: Subject>() -> Result<()> {
    let server = Arc::new(Server::start().await?);
    beyond_stalls(&*server, TTL, async |ttl| cuts::<S>(&server, ttl).await).await
}

async fn cuts<S: Subject>(server: &Arc<Server>, ttl: Duration) -> Result<()> {
    let other = lockkeeper::connect_with(&server.url(), patient()).await?;
    for direction in [Direction::ToServer, Direction::ToClient] {
        let needed = Lane::start::<S>(server, ttl)
            .await?
            .needed::<S>(direction)
            .await?;
        ensure!(needed > 40, "{needed} bytes cannot be all");
        let next = Arc::new(AtomicU64::new(0));
        let mut lanes = JoinSet::new();
        for _ in 0..LANES {
            let (server, next, other) = (Arc::clone(server), Arc::clone(&next), other.clone());
            lanes.spawn(async move {
                let lane = Lane::start::<S>(&server, ttl).await?;
                loop {
                    let bytes = next.fetch_add(1, Ordering::Relaxed);
                    if bytes > needed {
                        return anyhow::Ok(());
                    }
                    let outcome = lane.cut::<S>(direction, bytes, &other).await;
                    outcome.with_context(|| format!("{direction:?} {bytes} of {needed}"))?;
                }
            });
        }
        while let Some(lane) = lanes.join_next().await {
            lane??;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_mutex_whose_connection_is_cut_after_any_byte_costs_nothing_but_time() -> Result<()> {
    cut_after_every_byte::<Mutex>().await
}

#[tokio::test]
async fn a_re_entrant_lock_whose_connection_is_cut_after_any_byte_costs_nothing_but_time()
-> Result<()> {
    cut_after_every_byte::<ReentrantLock>().await
}

#[tokio::test]
async fn a_fair_lock_whose_connection_is_cut_after_any_byte_costs_nothing_but_time() -> Result<()> {
    cut_after_every_byte::<FairLock>().await
}

#[tokio::test]
async fn a_reader_whose_connection_is_cut_after_any_byte_costs_nothing_but_time() -> Result<()> {
    cut_after_every_byte::<Reader>().await
}

#[tokio::test]
async fn a_writer_whose_connection_is_cut_after_any_byte_costs_nothing_but_time() -> Result<()> {
    cut_after_every_byte::<Writer>().await
}

/// A name that is held, and one that waits for it behind a proxy.
async fn waited_for<S: Subject>(
    server: &Server,
    name: &str,
    direct: &Client,
    client: &Client,
) -> Result<(S::Guard, JoinHandle<Result<()>>)> {
    let guard = S::new(direct, name).acquire().await?;
    let lock = S::new(client, name);
    let waiting = tokio::spawn(async move {
        Guard::release(lock.acquire().await?).await?;
        Ok(())
    });
    // lockkeeper.wake, or lockkeeper.grant and the client.
    let channels = format!("lockkeeper.*:{{*{name}}}*");
    let listens = async || {
        let open = server.command(&["PUBSUB", "CHANNELS", &channels]).await?;
        anyhow::Ok(!open.into_texts()?.is_empty())
    };
    let start = Instant::now();
    while !listens().await? {
        ensure!(start.elapsed() < PATIENCE, "nobody listens");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok((guard, waiting))
}

/// Sooner than the poll that finds what no message told.
const BY_RECONNECTION: Duration = Duration::from_millis(4_500);

/// Three times as long as until a waiter's next heartbeat, which is later than all that a test waits for.
const WAITER_TTL: Duration = Duration::from_secs(600);

/// With clients that wait in the usual way, or that poll. Every waiter must be served within this time.
async fn message_cut_after_every_byte<S: Subject>(
    server: &Arc<Server>,
    usual: fn() -> ClientBuilder,
    in_time: Duration,
) -> Result<()> {
    let direct = lockkeeper::connect_with(&server.url(), usual()).await?;
    let start = async || {
        let proxy = Proxy::in_front_of(server).await?;
        let settings = usual().waiter_ttl(WAITER_TTL);
        let client = lockkeeper::connect_with(proxy.url(), settings).await?;
        Guard::release(S::new(&client, "first").acquire().await?).await?;
        anyhow::Ok((proxy, client))
    };

    // What arrives while nothing is handed on is the message alone: the answers to the waiter's requests arrive before the answer
    // to a later request on the same connection. Of several times the least counts, in case a poll falls into one.
    let (proxy, client) = start().await?;
    let received = || proxy.so_far().received[Direction::ToClient as usize];
    let mut needed = u64::MAX;
    for number in 9990..9999 {
        let name = format!("name {number}");
        let scripts = async || server.commandstats("evalsha").await;
        let before = scripts().await?;
        let (guard, waiting) = waited_for::<S>(server, &name, &direct, &client).await?;
        timeout(PATIENCE, async {
            // The holder's, the waiter's, and the one after its subscription.
            while scripts().await? < before + 3 {
                tokio::task::yield_now().await;
            }
            anyhow::Ok(())
        })
        .await??;
        timeout(PATIENCE, S::new(&client, &name).inspect()).await??;
        let before = received();
        proxy.hold(Direction::ToClient);
        Guard::release(guard).await?;
        timeout(
            PATIENCE,
            proxy.seen(|seen| seen.received[Direction::ToClient as usize] > before),
        )
        .await?;
        needed = needed.min(received() - before);
        proxy.release(Direction::ToClient);
        timeout(PATIENCE, waiting).await???;
    }
    ensure!((40..200).contains(&needed), "{needed} bytes are no message");

    let next = Arc::new(AtomicU64::new(0));
    let mut lanes = JoinSet::new();
    for _ in 0..LANES {
        let (proxy, client) = start().await?;
        let (server, direct, next) = (Arc::clone(server), direct.clone(), Arc::clone(&next));
        lanes.spawn(async move {
            loop {
                let bytes = next.fetch_add(1, Ordering::Relaxed);
                if bytes > needed {
                    return anyhow::Ok(());
                }
                let name = format!("name {bytes:04}");
                let (guard, waiting) = waited_for::<S>(&server, &name, &direct, &client).await?;
                let before = proxy.so_far().cut;
                proxy.cut_after(Direction::ToClient, bytes);
                Guard::release(guard).await?;
                let served = timeout(in_time, waiting).await;
                served.with_context(|| format!("after {bytes} of {needed} bytes"))???;
                let seen = proxy.so_far();
                ensure!(seen.cut == before + 1, "{bytes}: nothing was cut: {seen:?}");
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane??;
    }
    Ok(())
}

#[tokio::test]
async fn a_waiter_whose_message_is_cut_after_any_byte_is_served() -> Result<()> {
    let server = Arc::new(Server::start().await?);
    beyond_stalls(&*server, BY_RECONNECTION, async |in_time| {
        message_cut_after_every_byte::<Mutex>(&server, polling, in_time).await
    })
    .await
}

#[tokio::test]
async fn a_waiter_in_a_queue_whose_grant_is_cut_after_any_byte_is_served() -> Result<()> {
    let server = Arc::new(Server::start().await?);
    message_cut_after_every_byte::<FairLock>(&server, patient, PATIENCE).await
}

#[tokio::test]
async fn a_waiter_whose_subscription_is_cut_before_its_answer_is_served() -> Result<()> {
    let server = Server::start().await?;
    let direct = lockkeeper::connect_with(&server.url(), polling()).await?;
    beyond_stalls(&server, BY_RECONNECTION, async |in_time| {
        let proxy = Proxy::in_front_of(&server).await?;
        let client = lockkeeper::connect_with(proxy.url(), polling()).await?;
        proxy.lose_reply_to("lockkeeper.wake:{name}\r\n");
        let (guard, waiting) = waited_for::<Mutex>(&server, "name", &direct, &client).await?;
        guard.release().await?;
        timeout(in_time, waiting).await???;
        ensure!(proxy.so_far().cut == 1, "nothing was cut");
        Ok(())
    })
    .await
}
