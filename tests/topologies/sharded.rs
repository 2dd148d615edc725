//! Waiters in a cluster whose slots migrate and whose primaries die: the messages for their names reach them again.

use std::any::type_name;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, ClientBuilder, FairLock, Guard, Lock as _, Mutex, Reader, ReentrantLock, Semaphore,
    Writer,
};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::subject::Subject;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use lockkeeper_tests::patient;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Far below the seconds between two checks of subscriptions.
const PROMPT: Duration = Duration::from_millis(1500);

const NAME: &str = "wanders";

/// A holder and a waiter of the name, each with a client of its own.
struct Pair<S: Subject> {
    holder: Client,
    waiter: Client,
    guard: S::Guard,
    waiting: JoinHandle<Result<Instant>>,
}

impl<S: Subject> Pair<S> {
    /// Returns once the waiter is subscribed.
    async fn begin(cluster: &Cluster, slot: u16, settings: ClientBuilder) -> Result<Self> {
        let settings = settings.release_timeout(PATIENCE);
        let holder = cluster.client(settings.clone()).await?;
        let waiter = cluster.client(settings).await?;
        let guard = S::new(&holder, NAME).acquire().await?;
        let lock = S::Contender::new(&waiter, NAME);
        let waiting = tokio::spawn(async move {
            let guard = lock.acquire().await?;
            let granted = Instant::now();
            Guard::release(guard).await?;
            Ok(granted)
        });
        listening(cluster, cluster.primary_of(slot).await?).await?;
        Ok(Self {
            holder,
            waiter,
            guard,
            waiting,
        })
    }

    /// Releases, and returns how long the waiter then waits.
    async fn hand_over(self) -> Result<Duration> {
        let begun = Instant::now();
        Guard::release(self.guard).await?;
        let granted = timeout(PATIENCE, self.waiting).await???;
        self.holder.close().await;
        self.waiter.close().await;
        Ok(granted.duration_since(begun))
    }
}

/// Waits until a client on this node is subscribed to a channel of the name.
async fn listening(cluster: &Cluster, node: usize) -> Result<()> {
    let question = match cluster.has_sharded_messages().await? {
        true => "SHARDCHANNELS",
        false => "CHANNELS",
    };
    let all = ["PUBSUB", question, "lockkeeper.*{lockkeeper:wanders}*"];
    let found = async {
        while cluster.nodes()[node]
            .command(&all)
            .await?
            .into_texts()?
            .is_empty()
        {
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    };
    timeout(PATIENCE, found).await.context("nobody listens")?
}

async fn slot(cluster: &Cluster) -> Result<(u16, usize)> {
    let slot = cluster.slot_of("lockkeeper:wanders").await?;
    Ok((slot, cluster.primary_of(slot).await?))
}

async fn follows_a_slot<S: Subject>(cluster: &Cluster) -> Result<()> {
    beyond_stalls(cluster, PROMPT, async |prompt| {
        let (slot, from) = slot(cluster).await?;
        let to = (from + 1) % 3;
        let pair = Pair::<S>::begin(cluster, slot, patient()).await?;
        cluster.migrate(slot, to).await?;
        let begun = Instant::now();
        // This call tells it where the slot is.
        pair.waiter.inspect(NAME).await?;
        listening(cluster, to).await?;
        let followed = begun.elapsed();
        let waited = pair.hand_over().await?;
        println!(
            "{}: followed in {followed:?}, handed over in {waited:?}",
            type_name::<S>()
        );
        ensure!(followed < prompt, "{followed:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_told_after_its_slot_has_moved() -> Result<()> {
    let cluster = Cluster::options().replicas(0).start().await?;
    follows_a_slot::<Mutex>(&cluster).await?;
    follows_a_slot::<ReentrantLock>(&cluster).await?;
    follows_a_slot::<FairLock>(&cluster).await?;
    follows_a_slot::<Writer>(&cluster).await?;
    follows_a_slot::<Reader>(&cluster).await?;
    follows_a_slot::<Semaphore>(&cluster).await
}

/// The waiter's client sends no request for that slot meanwhile, and so does not know.
async fn is_served_late<S: Subject>(cluster: &Cluster) -> Result<()> {
    let (slot, from) = slot(cluster).await?;
    let pair = Pair::<S>::begin(cluster, slot, Client::builder()).await?;
    cluster.migrate(slot, (from + 1) % 3).await?;
    let waited = pair.hand_over().await?;
    println!(
        "{}: a slot that moved unseen cost {waited:?}",
        type_name::<S>()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_cannot_know_that_its_slot_has_moved_is_served_by_its_next_look() -> Result<()>
{
    let cluster = Cluster::options().replicas(0).start().await?;
    is_served_late::<Mutex>(&cluster).await?;
    is_served_late::<FairLock>(&cluster).await
}

/// The keys move first, and the holder releases on the node that will own the slot. No client can subscribe there yet. The
/// release names keys of which some exist on no node, so it is repeated until the slot has arrived.
async fn is_served_after_the_way<S: Subject>(cluster: &Cluster) -> Result<()> {
    let (slot, from) = slot(cluster).await?;
    let to = (from + 1) % 3;
    let pair = Pair::<S>::begin(cluster, slot, Client::builder()).await?;
    cluster.begin_migration(slot, from, to).await?;
    cluster.move_keys(slot, from, to).await?;
    let releasing = tokio::spawn(Guard::release(pair.guard));
    cluster.move_keys(slot, from, to).await?;
    cluster.end_migration(slot, from, to).await?;
    releasing.await??;
    let begun = Instant::now();
    let granted = timeout(PATIENCE, pair.waiting).await???;
    let waited = granted.duration_since(begun);
    println!("{}: a slot on its way cost {waited:?}", type_name::<S>());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_served_when_its_slot_has_arrived() -> Result<()> {
    let cluster = Cluster::options().replicas(0).start().await?;
    is_served_after_the_way::<Mutex>(&cluster).await?;
    is_served_after_the_way::<ReentrantLock>(&cluster).await
}

async fn follows_a_failover<S: Subject>() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let (slot, from) = slot(&cluster).await?;
    let pair = Pair::<S>::begin(&cluster, slot, patient()).await?;
    cluster.nodes()[from].command(&["WAIT", "1", "0"]).await?;
    cluster.kill(from).await?;
    cluster.failed_over(from).await?;
    let begun = Instant::now();
    let to = cluster.primary_of(slot).await?;
    listening(&cluster, to).await?;
    // This call tells the holder which node is the new primary.
    while pair.holder.inspect(NAME).await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
    let followed = begun.elapsed();
    let waited = pair.hand_over().await?;
    println!(
        "{}: followed in {followed:?}, handed over in {waited:?}",
        type_name::<S>()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_told_after_a_failover() -> Result<()> {
    follows_a_failover::<Mutex>().await?;
    follows_a_failover::<FairLock>().await
}
