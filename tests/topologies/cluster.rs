//! A cluster under load while its primaries die, its slots migrate and its replicas come and go: for twenty seconds, or longer
//! with `LOCKKEEPER_LOAD_SECONDS`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, RwLock};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::recorded::{
    Job, Process, Records, duration, nothing_is_held, nothing_remains, serve, settings, work,
};
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls, until};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const CLIENTS: usize = 4;

/// Short, so that a migration of a slot takes several of them.
const TTL: Duration = Duration::from_secs(1);

/// Names of each kind.
const NAMES: usize = 4;

/// Three tasks for each name of each kind in each of its modes, and four tasks that hold several names at once.
fn jobs() -> Vec<Job> {
    let mut jobs = Job::of_singles(NAMES, 3);
    jobs.extend([Job::of_several(NAMES); 4]);
    jobs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_hangs_or_is_forgotten_while_nodes_die_and_slots_wander() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let jobs = jobs();
    let names = jobs.iter().copied().flat_map(Job::names);
    let records = Arc::new(Records::new(names).at_least(20));
    let names: Vec<String> = records.names().map(str::to_owned).collect();
    let mut processes = Vec::new();
    for _ in 0..CLIENTS {
        let client = records.client(&cluster, settings()).await?;
        processes.push(Process::new(vec![client]));
    }
    let end = Instant::now() + duration().max(Duration::from_secs(20));
    let mut tasks = JoinSet::new();
    for (number, &job) in jobs.iter().enumerate() {
        // The tasks of one name belong to different clients.
        let process = processes[(number + number / NAMES) % CLIENTS].clone();
        let records = Arc::clone(&records);
        tasks.spawn(async move { work(job, process, &records, end).await });
    }
    let faults = storm(&mut cluster, &names, &records, end).await?;
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    for process in &processes {
        serve(&Job::of_each(NAMES), process, &records).await?;
    }
    let grants = records.check()?;
    println!("{grants} grants, {records}; {faults}");
    let clients: Vec<_> = processes.iter().flat_map(Process::clients).collect();
    nothing_is_held(&clients[0], records.names()).await?;
    nothing_remains(&cluster).await?;
    nobody_listens(&cluster, clients).await
}

/// Everything that can happen to a cluster, one after the other. Returns how often each happened.
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
        cluster.kill(replica).await?;
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

/// Kills or freezes a primary until its replica has replaced it, then brings it back.
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
    records.may_lose(lost);
    if for_good {
        cluster.kill(victim).await?;
        cluster.failed_over(victim).await?;
        cluster.restart(victim).await?;
    } else {
        cluster.freeze(victim).await?;
        cluster.failed_over(victim).await?;
        cluster.thaw(victim)?;
    }
    cluster.healed().await?;
    records.lost_nothing_more();
    Ok(())
}

/// Migrates the slots of some names to the next primary. Returns how many.
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

/// Checks that no subscription remains but each client's own channel, and that one only until the client is closed.
async fn nobody_listens(cluster: &Cluster, clients: Vec<Client>) -> Result<()> {
    let sharded = cluster.has_sharded_messages().await?;
    let questions = ["CHANNELS", "SHARDCHANNELS"];
    let channels = async |pattern: &str| {
        let mut channels = Vec::new();
        for node in cluster.nodes() {
            for question in &questions[..1 + usize::from(sharded)] {
                let words = ["PUBSUB", question, pattern];
                channels.extend(node.command(&words).await?.into_texts()?);
            }
        }
        anyhow::Ok(channels)
    };
    for pattern in ["lockkeeper.wake:*", "lockkeeper.grant:*"] {
        until("no subscription", PATIENCE, async || {
            let left = channels(pattern).await?;
            Ok((left.is_empty(), left.join(" ")))
        })
        .await?;
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
    until("no closed client listens", PATIENCE, async || {
        let left = channels("*").await?;
        Ok((left.is_empty(), left.join(" ")))
    })
    .await
}

/// A lease is renewed with the main key and the holders, which exist. A fair lock's next claim is granted from the queue and
/// is then alone. The slots of both migrate for longer than their leases last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_last_while_their_slot_is_on_its_way() -> Result<()> {
    let cluster = Cluster::options().replicas(0).start().await?;
    let client = lockkeeper::connect(&cluster.url()).await?;
    let (lock, book) = (
        FairLock::new(&client, "{slot}fair"),
        RwLock::new(&client, "{slot}book"),
    );
    beyond_stalls(&cluster, TTL, async |ttl| {
        let first = lock.acquire().ttl(ttl).await?;
        let next = tokio::spawn(lock.acquire().ttl(ttl).into_future());
        while lock.queue_len().await? != 1 {
            sleep(Duration::from_millis(5)).await;
        }
        first.release().await?;
        let next = timeout(PATIENCE, next).await???;
        let (one, other) = (book.read().ttl(ttl).await?, book.read().ttl(ttl).await?);
        let slot = cluster.slot_of("{slot}").await?;
        let from = cluster.primary_of(slot).await?;
        let to = (from + 1) % 3;
        cluster.begin_migration(slot, from, to).await?;
        let held = async || {
            for lease in [&*next, &*one, &*other] {
                lease.verify().await?;
            }
            anyhow::Ok(())
        };
        let migrated = async {
            next.run(sleep(ttl * 3)).await?;
            held().await?;
            cluster.move_keys(slot, from, to).await?;
            next.run(sleep(ttl * 3)).await?;
            held().await
        };
        let migrated = migrated.await;
        cluster.move_keys(slot, from, to).await?;
        cluster.end_migration(slot, from, to).await?;
        migrated
    })
    .await
}
