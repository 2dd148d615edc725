//! Histories of a Redlock from seeds, on paused time: lost and late requests and replies, servers that lose their data, clocks
//! a second apart. Never two believe, and tokens increase.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Client, QuorumLease, Redlock};
use lockkeeper_core::store::Store;
use lockkeeper_lua::{mutex, redlock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::unruly::{Fate, Unruly};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(4);

/// Random numbers, enough for weather.
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

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let index = self.roll(u64::try_from(all.len()).unwrap_or(1));
        &all[usize::try_from(index).unwrap_or(0)]
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.roll(most))
    }
}

/// Who was granted the lock so far.
#[derive(Default)]
struct Grants {
    last: Option<QuorumLease>,
    number: usize,
    broken: Option<String>,
}

impl Grants {
    fn add(&mut self, lease: QuorumLease) {
        self.number += 1;
        if let Some(last) = self.last.replace(lease.clone()) {
            if last.ensure_held().is_ok() && lease.ensure_held().is_ok() {
                self.broken = Some(format!("both hold: {last:?} and {lease:?}"));
            }
            if last.fencing_token() >= lease.fencing_token() {
                self.broken = Some(format!("not in order: {last:?} and {lease:?}"));
            }
        }
    }
}

async fn work(lock: Redlock, grants: Arc<Mutex<Grants>>, mut dice: Dice, end: Instant) {
    while Instant::now() < end {
        let Ok(guard) = lock.acquire().wait_for(TTL * 2).await else {
            sleep(dice.millis(500)).await;
            continue;
        };
        grants
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(guard.clone());
        sleep(dice.millis(6_000)).await;
        if dice.roll(3) == 0 {
            drop(guard);
        } else {
            let _ = guard.release().await;
        }
    }
}

/// How many grants there were.
async fn history(seed: u64) -> Result<usize> {
    let mut dice = Dice(seed);
    let servers: Vec<_> = (0..5).map(|_| MemoryStore::new()).collect();
    for server in &servers {
        server.step_clock(i64::try_from(dice.roll(1_000))?);
    }
    let grants = Arc::<Mutex<Grants>>::default();
    let end = Instant::now() + Duration::from_secs(120);
    let mut links = Vec::new();
    let mut workers = JoinSet::new();
    for number in 0..3 {
        let mut clients = Vec::new();
        for (place, server) in (0..).zip(&servers) {
            let link = Unruly::new(Arc::new(server.sibling()));
            let settings = Client::builder()
                .ttl(TTL)
                .seed(seed * 100 + number * 10 + place);
            clients.push(settings.build(Arc::clone(&link) as Arc<dyn Store>)?);
            links.push((link, usize::try_from(place)?));
        }
        let lock = Redlock::new(&clients, "name")?;
        let dice = Dice(seed.wrapping_add(number * 7919 + 1));
        workers.spawn(work(lock, Arc::clone(&grants), dice, end));
    }
    let scripts: [&lockkeeper_lua::Script; 5] = [
        &redlock::ACQUIRE,
        &redlock::RAISE,
        &mutex::RENEW,
        &mutex::LEAVE,
        &mutex::LEAVE_MARKED,
    ];
    let fates = [
        Fate::LoseReply,
        Fate::LoseRequest,
        Fate::Keep,
        Fate::NotSent,
    ];
    while Instant::now() < end {
        sleep(dice.millis(400)).await;
        let (link, place) = dice.of(&links);
        match dice.roll(12) {
            0 => servers[*place].restart_empty(),
            1..=3 => {
                link.deliver(&servers[*place]).await;
            }
            4 => link.slow_down(
                dice.of::<&lockkeeper_lua::Script>(&scripts),
                dice.millis(600),
            ),
            5 => link.slow_down(dice.of::<&lockkeeper_lua::Script>(&scripts), Duration::ZERO),
            _ => link.plan(
                dice.of::<&lockkeeper_lua::Script>(&scripts),
                *dice.of(&fates),
            ),
        }
    }
    while workers.join_next().await.is_some() {}
    let grants = grants.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(grants.broken.is_none(), "{:?}", grants.broken);
    Ok(grants.number)
}

#[test]
fn never_two_believe_and_tokens_increase_in_a_dozen_histories() -> Result<()> {
    let mut number = 0;
    for seed in 1..=12 {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build()?;
        let granted = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(3600), history(seed)).await
        });
        let granted = granted?.map_err(|error| error.context(format!("seed {seed}")))?;
        number += granted;
    }
    println!("{number} grants");
    ensure!(number > 120, "only {number} grants");
    Ok(())
}
