//! rslock: see ../README.md.

use std::io::{BufRead as _, stdin};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use rslock::LockManager;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const DELAY: Duration = Duration::from_millis(20);
const TTL: Duration = Duration::from_secs(30);

struct Client {
    one: LockManager,
    all: LockManager,
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
        let end = began + Duration::from_millis(number("millis")?.try_into()?);
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
            let work = work(locks.clone(), pairs, name, end);
            working.spawn(async move { (which, work.await) });
        }
        let mut waits = vec![Vec::new(); count];
        while let Some(done) = working.join_next().await {
            let (which, its) = done?;
            waits[which].extend(its?);
        }
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{}",
            json!({ "waits": waits, "seconds": seconds, "processor": processor() - used })
        );
    }
    Ok(())
}
