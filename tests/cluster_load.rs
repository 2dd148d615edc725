//! A cluster under load while its primaries die, its slots wander and its replicas come and go: for twenty seconds, or for
//! longer by `LOCKKEEPER_LOAD_SECONDS`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper::{Client, ClientBuilder, Error, FairLock, Mutex as LockMutex, RwLock};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::history::{Belief, History, now};
use lockkeeper_testkit::load::duration;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::subject::{Reentrant, Subject};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(3);
const CLIENTS: usize = 4;
const TASKS: usize = 64;

/// Names of each kind; four tasks for each name.
const NAMES: usize = 4;

/// How long somebody may wait in the worst of weathers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How soon everybody is served when all is well again.
const SOON: Duration = Duration::from_secs(20);

fn settings() -> ClientBuilder {
    Client::builder().ttl(TTL).waiter_ttl(TTL)
}

/// What happened to a node, which may have taken writes with it that it had answered.
#[derive(Debug)]
struct Loss {
    from: u64,
    until: u64,
    names: Vec<String>,
}

/// What all tasks write down.
#[derive(Debug, Default)]
struct Records {
    histories: BTreeMap<String, History>,
    losses: Mutex<Vec<Loss>>,
    lost: AtomicU64,
    refused: AtomicU64,
    unserved: AtomicU64,
    excused: AtomicU64,
}

impl Records {
    fn losses(&self) -> std::sync::MutexGuard<'_, Vec<Loss>> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the later grant followed a failover that the earlier one was before.
    fn excuses(&self, name: &str, earlier: &Belief, later: &Belief) -> bool {
        let explains = |loss: &Loss| {
            loss.names.iter().any(|lost| lost == name)
                && earlier.from <= loss.until
                && later.from >= loss.from
        };
        let excused = self.losses().iter().any(explains);
        self.excused.fetch_add(excused.into(), Ordering::Relaxed);
        excused
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_hangs_or_is_forgotten_while_nodes_die_and_slots_wander() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let kinds = ["mutex", "reentrant", "fair", "writer"];
    let name = |kind: &&str| {
        (0..NAMES)
            .map(|number| format!("{kind} {number}"))
            .collect::<Vec<_>>()
    };
    let names: Vec<String> = kinds.iter().flat_map(name).collect();
    let histories = names.iter().map(|name| (name.clone(), History::default()));
    let records = Arc::new(Records {
        histories: histories.collect(),
        ..Records::default()
    });
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(cluster.client(settings()).await?);
    }
    let end = Instant::now() + duration().max(Duration::from_secs(20));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (client, name) = (
            clients[task % CLIENTS].clone(),
            names[task / CLIENTS].clone(),
        );
        let records = Arc::clone(&records);
        tasks.spawn(async move {
            match task / CLIENTS / NAMES {
                0 => work::<LockMutex>(&client, &name, &records, end).await,
                1 => work::<Reentrant>(&client, &name, &records, end).await,
                2 => work::<FairLock>(&client, &name, &records, end).await,
                _ => work::<RwLock>(&client, &name, &records, end).await,
            }
        });
    }
    let weather = storm(&mut cluster, &names, &records, end).await?;
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    everybody_is_served(&clients, &names).await?;
    let mut grants = 0;
    for (name, history) in &records.histories {
        let checked = history.check_unless(|earlier, later| records.excuses(name, earlier, later));
        let of_name = checked.with_context(|| format!("{name:?}, {:#?}", records.losses()))?;
        ensure!(of_name > 20, "{name:?} was held {of_name} times");
        grants += of_name;
    }
    let Records {
        lost,
        refused,
        unserved,
        excused,
        ..
    } = &*records;
    println!(
        "{grants} grants, {lost:?} lost, {refused:?} errors, {unserved:?} waits too long, {excused:?} overlaps \
         after a failover; {weather}"
    );
    nothing_is_left(&cluster, clients, &names).await
}

/// Holds again and again, and writes down what it believed.
async fn work<S: Subject>(
    client: &Client,
    name: &str,
    records: &Records,
    end: Instant,
) -> Result<()> {
    let lock = S::new(client, name);
    while Instant::now() < end {
        let acquiring = lock.acquire().wait_for(SOON).into_future();
        let acquired = timeout(PATIENCE, acquiring).await;
        let guard = match acquired.with_context(|| format!("{name:?} hangs"))? {
            Ok(guard) => guard,
            Err(Error::Timeout { .. }) => {
                records.unserved.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Err(error) if error.is_transient() => {
                records.refused.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(10)).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let from = now();
        let mut belief = None;
        for _ in 0..fastrand::u8(1..6) {
            match Belief::until_now(from, &*guard, false, format!("{:?}", guard.owner())) {
                Ok(until_now) => belief = Some(until_now),
                Err(_) => break,
            }
            sleep(Duration::from_millis(fastrand::u64(0..3))).await;
        }
        if let Some(belief) = belief {
            records.histories[name].record(belief);
        }
        let released = timeout(PATIENCE, S::release(guard)).await;
        match released.with_context(|| format!("the release of {name:?} hangs"))? {
            Ok(_) => {}
            Err(Error::Lost { .. }) => drop(records.lost.fetch_add(1, Ordering::Relaxed)),
            Err(error) if error.is_transient() => {
                records.refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Everything that may happen to a cluster, one after the other; says how often.
async fn storm(
    cluster: &mut Cluster,
    names: &[String],
    records: &Records,
    end: Instant,
) -> Result<String> {
    let (mut kills, mut freezes, mut migrations, mut replicas) = (0, 0, 0, 0);
    while Instant::now() < end {
        for _ in 0..3 {
            migrations += slots_wander(cluster, names).await?;
        }
        let primaries = cluster.primaries().await?;
        let victim = primaries[fastrand::usize(..primaries.len())];
        lose(cluster, victim, names, records, true).await?;
        kills += 1;
        migrations += slots_wander(cluster, names).await?;
        let primaries = cluster.primaries().await?;
        let replica = (0..6)
            .find(|node| !primaries.contains(node))
            .context("no replica")?;
        cluster.kill(replica)?;
        sleep(Duration::from_millis(200)).await;
        cluster.restart(replica).await?;
        cluster.healed().await?;
        replicas += 1;
        let victim = primaries[fastrand::usize(..primaries.len())];
        lose(cluster, victim, names, records, false).await?;
        freezes += 1;
    }
    Ok(format!(
        "{kills} primaries killed, {freezes} frozen, {replicas} replicas killed, {migrations} slots moved"
    ))
}

/// A primary is killed, or frozen, until its replica has taken its place; then it comes back.
async fn lose(
    cluster: &mut Cluster,
    victim: usize,
    names: &[String],
    records: &Records,
    for_good: bool,
) -> Result<()> {
    let mut lost = Vec::new();
    for name in names {
        let slot = cluster.slot_of(&format!("lockkeeper:{name}")).await?;
        if cluster.primary_of(slot).await? == victim {
            lost.push(name.clone());
        }
    }
    let from = now();
    records.losses().push(Loss {
        from,
        until: u64::MAX,
        names: lost,
    });
    if for_good {
        cluster.kill(victim)?;
        cluster.failed_over(victim).await?;
        cluster.restart(victim).await?;
    } else {
        cluster.freeze(victim)?;
        cluster.failed_over(victim).await?;
        cluster.thaw(victim)?;
    }
    cluster.healed().await?;
    if let Some(loss) = records.losses().last_mut() {
        loss.until = now();
    }
    Ok(())
}

/// Slots of some names go to the next primary; how many.
async fn slots_wander(cluster: &Cluster, names: &[String]) -> Result<usize> {
    let primaries = cluster.primaries().await?;
    let some = [0, 1, 2, 3].map(|_| &names[fastrand::usize(..names.len())]);
    for name in some {
        let slot = cluster.slot_of(&format!("lockkeeper:{name}")).await?;
        let owner = cluster.primary_of(slot).await?;
        let place = primaries.iter().position(|primary| *primary == owner);
        let next = primaries[(place.unwrap_or_default() + 1) % primaries.len()];
        cluster.begin_migration(slot, owner, next).await?;
        sleep(Duration::from_millis(30)).await;
        cluster.move_keys(slot, owner, next).await?;
        sleep(Duration::from_millis(30)).await;
        cluster.end_migration(slot, owner, next).await?;
        cluster.healed().await?;
    }
    Ok(some.len())
}

async fn everybody_is_served(clients: &[Client], names: &[String]) -> Result<()> {
    for client in clients {
        for (number, name) in names.iter().enumerate() {
            let served = async {
                match number / NAMES {
                    0 => turn::<LockMutex>(client, name).await,
                    1 => turn::<Reentrant>(client, name).await,
                    2 => turn::<FairLock>(client, name).await,
                    _ => turn::<RwLock>(client, name).await,
                }
            };
            let served = timeout(SOON, served).await;
            served.with_context(|| format!("nobody serves {name:?}"))??;
        }
    }
    Ok(())
}

async fn turn<S: Subject>(client: &Client, name: &str) -> Result<()> {
    S::release(S::new(client, name).acquire().await?).await?;
    Ok(())
}

/// No hold, no waiter and no subscription, but for the channel of each client until it is closed.
async fn nothing_is_left(cluster: &Cluster, clients: Vec<Client>, names: &[String]) -> Result<()> {
    for name in names {
        let seen = clients[0].inspect(name).await?;
        ensure!(seen.holders.is_empty() && seen.kind.is_none(), "{seen:?}");
    }
    let channels = async |pattern: &str| {
        let mut channels = Vec::new();
        for node in cluster.nodes() {
            let words = ["PUBSUB", "CHANNELS", pattern];
            channels.extend(node.command(&words).await?.into_texts()?);
        }
        anyhow::Ok(channels)
    };
    for pattern in ["lockkeeper.wake:*", "lockkeeper.grant:*"] {
        let begun = Instant::now();
        loop {
            let left = channels(pattern).await?;
            if left.is_empty() {
                break;
            }
            if begun.elapsed() > SOON {
                bail!("still subscribed to {left:?}");
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
    let of_clients = channels("*").await?;
    ensure!(
        of_clients.len() == CLIENTS,
        "one for each client: {of_clients:?}"
    );
    for client in clients {
        let report = client.close().await;
        ensure!(report.expiring == 0, "{report:?}");
    }
    let begun = Instant::now();
    while !channels("*").await?.is_empty() {
        ensure!(begun.elapsed() < SOON, "a closed client listens");
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
