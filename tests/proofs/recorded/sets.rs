//! Sets of names that many tasks take together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use lockkeeper::{Client, FairLock, MultiLock, Mutex, ReentrantLock, RwLock, Target};
use lockkeeper_testkit::recorded::duration;
use lockkeeper_testkit::server::Server;
use tokio::task::JoinSet;

use crate::support::client;

/// The sets of names that contenders take.
#[derive(Clone, Copy)]
struct Sets {
    /// The number of names that are mutexes or re-entrant locks.
    joined: u8,
    /// How many of those each set contains.
    part: usize,
    /// The number of the first name that is a re-entrant lock.
    reentrant: u8,
    /// The number of fair and read-write locks; each set contains one of them.
    others: u8,
}

impl Sets {
    /// A random set, in random order.
    fn draw(self, client: &Client, random: &mut Rng) -> Vec<Target> {
        let mut names: Vec<u8> = (0..self.joined).collect();
        random.shuffle(&mut names);
        names.truncate(self.part);
        names.extend((self.others > 0).then(|| self.joined + random.u8(..self.others)));
        random.shuffle(&mut names);
        let member = |number: u8| {
            let name = number.to_string();
            match number {
                _ if number < self.reentrant => Mutex::new(client, &name).target(),
                _ if number < self.joined => ReentrantLock::new(client, &name).target(),
                _ if number.is_multiple_of(2) => FairLock::new(client, &name).target(),
                _ if random.bool() => RwLock::new(client, &name).reader().target(),
                _ => RwLock::new(client, &name).writer().target(),
            }
        };
        names.into_iter().map(member).collect()
    }
}

#[tokio::test]
async fn random_sets_of_names_exclude_one_another_and_all_are_served() -> Result<()> {
    contend(Sets {
        joined: 20,
        part: 5,
        reentrant: 20,
        others: 0,
    })
    .await
}

#[tokio::test]
async fn random_sets_of_mixed_kinds_exclude_one_another_and_all_are_served() -> Result<()> {
    contend(Sets {
        joined: 16,
        part: 4,
        reentrant: 8,
        others: 4,
    })
    .await
}

/// Makes 32 tasks of four clients take sets of 5 of 20 names, again and again. Each records the names that it holds
/// exclusively.
async fn contend(sets: Sets) -> Result<()> {
    let server = Server::start().await?;
    let until = Instant::now() + duration();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(client(&server, Duration::from_secs(30)).await?);
    }
    let taken: Arc<Vec<AtomicBool>> = Arc::new((0..sets.joined).map(|_| false.into()).collect());
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let client = clients[task as usize % clients.len()].clone();
        let (mut random, taken) = (Rng::with_seed(task), Arc::clone(&taken));
        tasks.spawn(async move {
            let mut rounds = 0_u32;
            while Instant::now() < until {
                let lock = MultiLock::new(sets.draw(&client, &mut random))?;
                let guard = lock.acquire().wait_for(Duration::from_secs(60)).await?;
                ensure!(guard.parts().len() == 5);
                let mut own = Vec::new();
                for part in guard.parts() {
                    own.extend(taken.get(part.name().parse::<usize>()?));
                }
                for name in &own {
                    ensure!(!name.swap(true, Ordering::SeqCst), "held by two");
                }
                tokio::task::yield_now().await;
                guard.ensure_held()?;
                for name in &own {
                    name.store(false, Ordering::SeqCst);
                }
                guard.release().await?;
                rounds += 1;
            }
            Ok(rounds)
        });
    }
    let mut rounds: Vec<u32> = Vec::new();
    while let Some(task) = tasks.join_next().await {
        let task: Result<u32> = task?;
        rounds.push(task?);
    }
    let fewest = rounds.iter().min().context("there are tasks")?;
    let all: u32 = rounds.iter().sum();
    println!("{all} rounds, the fewest of a task {fewest}");
    ensure!(*fewest > 0, "somebody was never served: {rounds:?}");
    Ok(())
}
