//! The multi-lock in hundreds of random histories on paused time: several clients, two stores, requests and answers that are
//! late or lost, then fair weather. Each history follows from its seed.
//!
//! What must hold: nobody believes in a name beside another, tokens of a name grow, what a release or a loss leaves behind is gone
//! long before a lease ends as soon as the servers answer, and in the end everybody has been served and nothing is held.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use lockkeeper::{
    Client, Error, FairLock, Lease, Member, MultiGuard, MultiLock, Mutex, ReentrantLock, RwLock,
};
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{Call, Event, Reply, Store, StoreError, Value};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::mutants::engine::{self, Mutant};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

/// The defects that this simulation must find.
pub(crate) const MUTANTS: [Mutant; 2] = [
    Mutant::ReleaseStopsAtFirstError,
    Mutant::LossOfOneKeepsTheRest,
];

const CLIENTS: u64 = 3;
const TASKS: u64 = 2;
const TTL: Duration = Duration::from_secs(60);
const WAITER_TTL: Duration = Duration::from_secs(3);
/// How long anybody waits in the storm, ms.
const LONGEST_WAIT: u64 = 6_000;
/// How long the weather is bad.
const STORM: Duration = Duration::from_secs(40);
/// By when what nobody holds is gone once the servers answer: before a lease that nobody leaves for would have ended.
const SETTLED: Duration = Duration::from_secs(8);
/// By when everybody has been served at the latest.
const END: Duration = Duration::from_secs(3600);

/// A way to a server on which anything may happen until the storm is over.
struct Stormy {
    inner: MemoryStore,
    random: StdMutex<Rng>,
    calm: Instant,
}

impl Stormy {
    /// A way to `server` with a fate of its own.
    fn new(server: &MemoryStore, seed: u64, calm: Instant) -> Arc<Self> {
        Arc::new(Self {
            inner: server.sibling(),
            random: StdMutex::new(Rng::with_seed(seed)),
            calm,
        })
    }

    fn draw(&self, below: u64) -> u64 {
        self.random.lock().unwrap().u64(..below)
    }
}

impl fmt::Debug for Stormy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stormy")
    }
}

#[async_trait]
impl Store for Stormy {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        let limit = call.timeout;
        let fate = if Instant::now() < self.calm {
            self.draw(12)
        } else {
            12
        };
        let (there, back) = (1 + self.draw(4), 1 + self.draw(4));
        let server = self.inner.sibling();
        let answer = async {
            match fate {
                0 => return std::future::pending().await,
                1 => return Err(StoreError::not_sent("no connection")),
                2 => {
                    // It arrives when nobody waits for it any more.
                    tokio::spawn(async move {
                        sleep(limit * 2).await;
                        let _ = server.call(call).await;
                    });
                    return std::future::pending().await;
                }
                _ => sleep(Duration::from_millis(there)).await,
            }
            let reply = server.call(call).await;
            sleep(Duration::from_millis(back)).await;
            if fate == 3 {
                return std::future::pending().await;
            }
            reply
        };
        let silence = Err(StoreError::unknown("no answer in time"));
        timeout(limit, answer).await.unwrap_or(silence)
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.inner.subscribe(channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.inner.unsubscribe(channel).await
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.inner.events()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// Who believes, and the last token of each name.
#[derive(Default)]
struct Checks {
    believers: StdMutex<BTreeMap<String, u64>>,
    tokens: StdMutex<BTreeMap<String, u64>>,
}

/// What was seen that must not be.
type Violation = String;

impl Checks {
    /// A guard has been granted to a task: every member is its alone, with a token that is new.
    fn granted(
        &self,
        task: u64,
        guard: &MultiGuard,
        clients: &[Client; 2],
    ) -> Result<(), Violation> {
        let mut believers = self.believers.lock().unwrap();
        let mut tokens = self.tokens.lock().unwrap();
        for lease in guard.leases() {
            let (store, token) = (store_of(clients, lease.owner()), lease.fencing_token());
            let name = format!("{store}/{}", lease.name());
            if let Some(other) = believers.insert(name.clone(), task) {
                return Err(format!("{name} is believed in by {other} and {task}"));
            }
            let last = tokens.insert(name.clone(), token.get());
            if last.is_some_and(|last| last >= token.get()) {
                return Err(format!("{name}: token {token} after {last:?}"));
            }
        }
        Ok(())
    }

    /// The task believes no longer.
    fn ended(&self, task: u64) {
        self.believers
            .lock()
            .unwrap()
            .retain(|_, believer| *believer != task);
    }
}

/// The two servers, by name.
const STORES: [&str; 2] = ["north", "south"];

/// The name and the kind of a lock: the same in every process.
fn member(client: &Client, name: u64) -> Member {
    match name {
        0..4 => Mutex::new(client, &format!("m{name}")).member(),
        4..6 => ReentrantLock::new(client, &format!("r{name}")).member(),
        6 => FairLock::new(client, "f").member(),
        _ => RwLock::new(client, "w").write_member(),
    }
}

/// Until the storm is over, takes random sets, holds them for a while, and lets go: by release or by drop, or because somebody
/// has revoked one of them.
async fn work(
    checks: &Checks,
    clients: &[Client; 2],
    task: u64,
    mut random: Rng,
    calm: Instant,
) -> Result<(), Violation> {
    while Instant::now() < calm {
        let mut members = Vec::new();
        for _ in 0..random.usize(1..6) {
            members.push(member(&clients[random.usize(..2)], random.u64(..8)));
        }
        let lock = MultiLock::new(members).map_err(|error| error.to_string())?;
        let patience = Duration::from_millis(random.u64(1..LONGEST_WAIT));
        let asked = match random.u8(..4) {
            0 => lock.try_acquire().await,
            1 => {
                let asked = timeout(patience, lock.acquire().into_future()).await;
                asked.unwrap_or(Err(Error::Closed)).map(Some)
            }
            _ => lock.acquire().wait_for(patience).await.map(Some),
        };
        let Ok(Some(guard)) = asked else {
            sleep(patience / 8).await;
            continue;
        };
        checks.granted(task, &guard, clients)?;
        let held = Duration::from_millis(random.u64(..3_000));
        let lost = timeout(held, guard.lost()).await;
        checks.ended(task);
        if lost.is_ok() {
            sleep(Duration::from_millis(1)).await;
            let held = |lease: &&Lease| lease.ensure_held().is_ok();
            if let Some(lease) = guard.leases().iter().find(held) {
                return Err(format!(
                    "{} goes on after the loss of another",
                    lease.name()
                ));
            }
        }
        if random.bool() {
            drop(guard.release().await);
        }
    }
    Ok(())
}

/// Takes everything there is: whoever asks is served in the end.
async fn take_all(checks: &Checks, clients: &[Client; 2], task: u64) -> Result<(), Violation> {
    let all = clients
        .iter()
        .flat_map(|client| (0..8).map(|name| member(client, name)));
    let lock = MultiLock::new(all).map_err(|error| error.to_string())?;
    let guard = timeout(END, lock.acquire().into_future()).await;
    let guard = guard.map_err(|_| "somebody was never served".to_owned())?;
    let guard = guard.map_err(|error| error.to_string())?;
    checks.granted(task, &guard, clients)?;
    sleep(Duration::from_millis(5)).await;
    checks.ended(task);
    guard
        .release()
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Of which of a process's two clients an owner is.
fn store_of(clients: &[Client; 2], owner: lockkeeper::Owner) -> &'static str {
    let own = clients[0].new_owner().to_string();
    let prefix = own.split(':').next().unwrap_or_default();
    STORES[usize::from(!owner.to_string().starts_with(prefix))]
}

/// One history; what was seen in it that must not be.
fn history(seed: u64) -> Option<Violation> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(storm_and_calm(seed)).err()
}

async fn storm_and_calm(seed: u64) -> Result<(), Violation> {
    let mut random = Rng::with_seed(seed);
    let servers = [MemoryStore::new(), MemoryStore::new()];
    let calm = Instant::now() + STORM;
    let checks = Arc::<Checks>::default();
    let mut processes = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = |store: usize| {
            let settings = Client::builder()
                .ttl(TTL)
                .waiter_ttl(WAITER_TTL)
                .store_name(STORES[store])
                .seed(random.u64(..));
            let stormy = Stormy::new(&servers[store], random.u64(..), calm);
            settings.build(stormy).unwrap()
        };
        processes.push([client(0), client(1)]);
    }
    let tasks = || (0..CLIENTS * TASKS).zip(processes.iter().cycle().cloned());
    let mut working = Vec::new();
    for (task, clients) in tasks() {
        let (checks, random) = (Arc::clone(&checks), random.fork());
        let work = async move { work(&checks, &clients, task, random, calm).await };
        working.push(tokio::spawn(work));
    }
    while Instant::now() < calm {
        sleep(Duration::from_millis(random.u64(500..5_000))).await;
        let name = ["m0", "m1", "r4", "f"][random.usize(..4)];
        let _ = processes[0][random.usize(..2)].revoke(name).await;
    }
    for work in working {
        work.await.map_err(|panic| panic.to_string())??;
    }
    sleep(SETTLED).await;
    if let Some(key) = held(&servers).first() {
        return Err(format!("{key} is held by nobody"));
    }
    let mut taking = Vec::new();
    for (task, clients) in tasks() {
        let checks = Arc::clone(&checks);
        taking.push(tokio::spawn(async move {
            take_all(&checks, &clients, task).await
        }));
    }
    for task in taking {
        task.await.map_err(|panic| panic.to_string())??;
    }
    Ok(())
}

/// The main keys of names that are held.
fn held(servers: &[MemoryStore; 2]) -> Vec<String> {
    let mut held = Vec::new();
    for (server, store) in servers.iter().zip(STORES) {
        for key in server.keys() {
            let left = server.execute(&["PTTL", &key]);
            if key.starts_with("lockkeeper:")
                && left.is_ok_and(|left| matches!(left, Value::Integer(0..)))
            {
                held.push(format!("{store}/{key}"));
            }
        }
    }
    held
}

/// How many histories keep every rule in each run of the tests.
const HISTORIES: u64 = 200;

/// How many histories a defect may stay hidden in.
const PATIENCE: u64 = 300;

#[test]
fn two_hundred_histories_of_several_locks_keep_every_rule() {
    for seed in 1..=HISTORIES {
        assert_eq!(history(seed), None, "seed {seed}");
    }
}

/// The first history in which the defect shows.
fn found(mutant: Mutant) -> (u64, Violation) {
    let found = engine::with(mutant, || {
        (1..=PATIENCE).find_map(|seed| Some((seed, history(seed)?)))
    });
    let (seed, violation) = found.unwrap_or_else(|| panic!("{mutant:?} was not found"));
    println!("{mutant:?}: seed {seed}, {violation}");
    (seed, violation)
}

#[test]
fn a_release_that_stops_at_the_first_error_is_found() {
    let (_, violation) = found(MUTANTS[0]);
    assert!(violation.ends_with("is held by nobody"), "{violation}");
}

#[test]
fn a_loss_of_one_that_keeps_the_rest_is_found() {
    let (_, violation) = found(MUTANTS[1]);
    assert!(violation.contains("goes on after"), "{violation}");
}
