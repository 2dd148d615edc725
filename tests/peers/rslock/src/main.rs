//! rslock: see ../README.md.

use std::io::{BufRead as _, stdin};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const DELAY: Duration = Duration::from_millis(20);
const TTL: Duration = Duration::from_secs(30);

struct Client {
    one: LockManager,
    all: LockManager,
    first: String,
}

fn connect(addresses: &[String]) -> Client {
    let urls: Vec<_> = addresses.iter().map(|it| format!("redis://{it}")).collect();
    let manager = |urls: &[String]| {
        let mut manager = LockManager::new(urls.to_vec());
        manager.set_retry(u32::MAX, DELAY);
        manager
    };
    Client {
        one: manager(&urls[..1]),
        all: manager(&urls),
        first: urls[0].clone(),
    }
}

fn processor() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

async fn work(locks: LockManager, pairs: bool, name: String, end: Instant) -> Result<Vec<u64>> {
    let mut waits = Vec::new();
    while Instant::now() < end {
        let start = Instant::now();
        let lock = locks
            .lock(name.as_bytes(), TTL)
            .await
            .map_err(|error| anyhow!("{error:?}"))?;
        let granted = start.elapsed();
        locks.unlock(&lock).await;
        let wait = if pairs { start.elapsed() } else { granted };
        waits.push(wait.as_micros().try_into()?);
    }
    Ok(waits)
}

/// Adds one to the stored number under the lock. Returns whether another library added to it last.
async fn add(redis: &mut MultiplexedConnection, key: &str) -> Result<bool> {
    let text: Option<String> = redis.get(key).await?;
    let again: Option<String> = redis.get(key).await?;
    ensure!(
        again == text,
        "{text:?} has become {again:?} under the lock"
    );
    let stored = text.as_deref().unwrap_or("0 nobody");
    let (number, last) = stored.split_once(' ').context("no number")?;
    let number: u64 = number.parse()?;
    let _: () = redis.set(key, format!("{} rslock", number + 1)).await?;
    Ok(text.is_some() && last != "rslock")
}

/// Returns how long each turn took, and how often another library had added last.
async fn counted(locks: LockManager, first: String, order: Value) -> Result<(Vec<u64>, u64)> {
    let name = order["name"].as_str().context("no name")?;
    let pause = order["pause"].as_u64().context("no pause")?;
    let key = format!("{name}:count");
    let mut redis = redis::Client::open(first)?
        .get_multiplexed_async_connection()
        .await?;
    let (mut waits, mut met) = (Vec::new(), 0);
    for _ in 0..order["count"].as_u64().context("no count")? {
        let start = Instant::now();
        let lock = locks
            .lock(name.as_bytes(), TTL)
            .await
            .map_err(|error| anyhow!("{error:?}"))?;
        waits.push(start.elapsed().as_micros().try_into()?);
        met += u64::from(add(&mut redis, &key).await?);
        locks.unlock(&lock).await;
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..=pause * 1000))).await;
    }
    Ok((waits, met))
}

#[tokio::main]
async fn main() -> Result<()> {
    let addresses: Vec<_> = std::env::args().skip(1).collect();
    let about = json!({
        "name": "rslock", "version": "0.10.0", "kinds": ["mutex", "redlock"],
        "settings": "redis-rs, one connection; tries again after 0 to 20 ms",
    });
    println!("{about}");
    let mut clients = Vec::new();
    for line in stdin().lock().lines() {
        let order: Value = serde_json::from_str(&line?)?;
        let number = |field: &str| -> Result<usize> {
            Ok(order[field]
                .as_u64()
                .with_context(|| format!("no {field}"))?
                .try_into()?)
        };
        let (tasks, count) = (number("tasks")?, number("clients")?);
        while clients.len() < count {
            clients.push(connect(&addresses));
        }
        let pairs = order["work"] == "pairs";
        let name = order["name"].as_str().context("no name")?;
        let (began, used) = (Instant::now(), processor());
        let end = began + Duration::from_millis(order["millis"].as_u64().unwrap_or_default());
        let mut working = JoinSet::new();
        for task in 0..tasks {
            let which = task % count;
            let client = &clients[which];
            let locks = if order["kind"] == "redlock" {
                &client.all
            } else {
                &client.one
            };
            let name = if pairs {
                format!("{name}:{task}")
            } else {
                name.to_owned()
            };
            if order["work"] == "counted" {
                let work = counted(locks.clone(), client.first.clone(), order.clone());
                working.spawn(async move { (which, work.await) });
                continue;
            }
            let work = work(locks.clone(), pairs, name, end);
            working.spawn(async move { (which, work.await.map(|waits| (waits, 0))) });
        }
        let (mut waits, mut met) = (vec![Vec::new(); count], 0);
        while let Some(done) = working.join_next().await {
            let (which, its) = done?;
            let (its, others) = its?;
            waits[which].extend(its);
            met += others;
        }
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{}",
            json!({ "waits": waits, "seconds": seconds, "processor": processor() - used, "met": met })
        );
    }
    Ok(())
}
