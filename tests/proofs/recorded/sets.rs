//! Sets of names that many tasks take together, and that nobody holds in part.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use lockkeeper::{Client, FairLock, MultiLock, Mutex, ReentrantLock, RwLock, Target};
use lockkeeper_testkit::recorded::duration;
use lockkeeper_testkit::server::Server;
use tokio::task::JoinSet;

use crate::support::client;

/// The owner of whatever lies under each key, all at one moment.
const OWNERS: &str = "local owners = {}
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key) or ''
  owners[i] = string.match(value, '^%l+ x ([^/]*)') or string.match(value, '^%l+ %* .* (%S+)$') or ''
end
return owners";

/// Sets of names that contenders take.
#[derive(Clone, Copy)]
struct Sets {
    /// How many names scripts take together.
    joined: u8,
    /// How many of those are in each set.
    part: usize,
    /// What is taken by one script is a re-entrant lock from this name on.
    reentrant: u8,
    /// How many names are of fair and read-write locks, one of which is in each set.
    others: u8,
}

impl Sets {
    /// A set by chance, in any order.
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
async fn random_sets_of_names_are_never_held_in_part_and_all_are_served() -> Result<()> {
    contend(Sets {
        joined: 20,
        part: 5,
        reentrant: 20,
        others: 0,
    })
    .await
}

#[tokio::test]
async fn random_sets_of_mixed_kinds_are_never_held_in_part_by_a_script_and_all_are_served()
-> Result<()> {
    contend(Sets {
        joined: 16,
        part: 4,
        reentrant: 8,
        others: 4,
    })
    .await
}

/// Lets 32 tasks of four clients take sets of 5 of 20 names, again and again, and looks at the keys meanwhile.
async fn contend(sets: Sets) -> Result<()> {
    let server = Server::start().await?;
    let until = Instant::now() + duration();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(client(&server, Duration::from_secs(30)).await?);
    }
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let client = clients[task as usize % clients.len()].clone();
        let mut random = Rng::with_seed(task);
        tasks.spawn(async move {
            let mut rounds = 0_u32;
            while Instant::now() < until {
                let lock = MultiLock::new(sets.draw(&client, &mut random))?;
                let guard = lock.acquire().wait_for(Duration::from_secs(60)).await?;
                tokio::task::yield_now().await;
                guard.ensure_held()?;
                ensure!(guard.parts().len() == 5);
                guard.release().await?;
                rounds += 1;
            }
            Ok(rounds)
        });
    }
    let keys: Vec<String> = (0..sets.joined)
        .map(|name| format!("lockkeeper:{name}"))
        .collect();
    let number = keys.len().to_string();
    let look: Vec<&str> = ["EVAL", OWNERS, &number]
        .into_iter()
        .chain(keys.iter().map(String::as_str))
        .collect();
    let (mut looks, mut rounds) = (0, Vec::new());
    while !tasks.is_empty() {
        let owners = server.command(&look).await?.into_texts()?;
        let mut parts: BTreeMap<String, usize> = BTreeMap::new();
        for owner in owners.into_iter().filter(|owner| !owner.is_empty()) {
            *parts.entry(owner).or_default() += 1;
        }
        ensure!(
            parts.values().all(|&names| names == sets.part),
            "held in part: {parts:?}"
        );
        looks += usize::from(!parts.is_empty());
        while let Some(task) = tasks.try_join_next() {
            rounds.push(task??);
        }
    }
    let fewest = rounds.iter().min().context("there are tasks")?;
    let all: u32 = rounds.iter().sum();
    println!("{all} rounds, the fewest of a task {fewest}, {looks} looks at something held");
    ensure!(*fewest > 0, "somebody was never served: {rounds:?}");
    ensure!(looks > 10, "only {looks} looks at something held");
    Ok(())
}
