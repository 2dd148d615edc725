//! Leases that are only held: what renewing them costs, how much memory they take, and whether one is lost.
//!
//! All leases are acquired as fast as possible, so their renewals come together, which is the worst case. They are watched for
//! whole renewal periods, starting in the middle of one, so that each renewal counts exactly once per period.

use std::time::{Duration, Instant};

use anyhow::Result;
use lockkeeper::{Client, LeaseState, Mutex, MutexGuard};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Effort;
use crate::meters::{count, own_memory, servers_memory, watch};
use crate::place::Place;
use crate::report::{Row, Target};
use crate::rounds::Spread;

const PART: &str = "held";

const TTL: Duration = Duration::from_secs(30);

/// Lockkeeper renews after a third of the ttl.
const PERIOD: Duration = Duration::from_secs(10);

/// Tasks that acquire at the same time.
const TASKS: usize = 64;

/// How many leases are verified on the server at the end.
const VERIFIED: usize = 1_000;

/// The number of leases for which the targets of scripts and memory are given.
const TARGET_LEASES: f64 = 100_000.0;

/// Measures held leases: for each number of them on a server of its own, and for the first number on a cluster too.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &leases in effort.leases {
        let place = Place::one().await?;
        rows.extend(hold(&place, leases, effort.periods, rows.is_empty()).await?);
    }
    for &leases in effort.leases {
        let place = Place::cluster().await?;
        rows.extend(hold(&place, leases, effort.periods, false).await?);
    }
    Ok(rows)
}

/// `fresh`: this process has measured nothing else, so the growth of its memory is what the leases take. Later, it would first
/// reuse memory that has been freed.
async fn hold(place: &Place, number: usize, periods: u32, fresh: bool) -> Result<Vec<Row>> {
    let servers = place.servers();
    let client = place.client(Client::builder().ttl(TTL)).await?;
    // One-time allocations must not count.
    let mut guards = Vec::with_capacity(number);
    guards.extend(acquire(&client, 0..TASKS).await?);

    let (memory, server_memory_before) = (own_memory(), servers_memory(servers).await?);
    let start = Instant::now();
    guards.extend(acquire(&client, TASKS..number).await?);
    let acquired = start.elapsed();
    let leases = count(guards.len() - TASKS);
    let memory = own_memory()
        .zip(memory)
        .map(|(after, before)| (after - before) / leases);
    let server_memory = (servers_memory(servers).await? - server_memory_before) / leases;

    sleep((PERIOD / 2).saturating_sub(acquired)).await;
    let watched = watch(servers, PERIOD * periods).await?;
    let lost = lost(&guards).await?;
    client.close().await;

    let row = |what: &str, unit, value| {
        let what = format!("{number} leases{}: {what}", place.suffix());
        Row::new(PART, what, unit, Spread::once(value))
    };
    let cost = |whose: &str, share| {
        let row = row(&format!("{whose} CPU"), "% of a core", share);
        let line = format!("{whose}{}", place.suffix());
        row.plotted("held", &line, count(number))
    };
    let mut rows = vec![
        row("lost", "", lost).target(Target::AtMost(0.0)),
        place.aim(row("scripts", "/s", watched.scripts), 1_000.0),
        row("scripts, busiest second", "/s", watched.busiest),
        place.aim(cost("client", watched.client), 5.0),
        cost("server", watched.server),
    ];
    if let Some(memory) = memory.filter(|_| fresh) {
        rows.push(row("client memory each", "bytes", memory).target(Target::AtMost(1_024.0)));
    }
    rows.push(place.aim(row("server memory each", "bytes", server_memory), 1_024.0));
    let scale = TARGET_LEASES / count(number);
    if scale > 1.0 {
        // The targets are for more leases than these.
        let at = |what: &str, value: f64| row(&format!("{what}, ×{scale}"), "", value * scale);
        rows.push(place.aim(at("scripts/s", watched.scripts), 1_000.0));
        rows.push(place.aim(at("client CPU %", watched.client), 5.0));
    }
    rows.push(row("acquired in", "s", acquired.as_secs_f64()));
    Ok(rows)
}

/// Acquires every lock of the range, several at a time.
async fn acquire(client: &Client, range: std::ops::Range<usize>) -> Result<Vec<MutexGuard>> {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (client, range) = (client.clone(), range.clone());
        tasks.spawn(async move {
            let mut guards = Vec::new();
            for number in range.skip(task).step_by(TASKS) {
                // 32 bytes, about as long as a name that contains a UUID.
                let name = format!("bench:held:lease:{number:015}");
                guards.push(Mutex::new(&client, &name).acquire().await?);
            }
            anyhow::Ok(guards)
        });
    }
    let mut guards = Vec::with_capacity(range.len());
    while let Some(done) = tasks.join_next().await {
        guards.extend(done??);
    }
    Ok(guards)
}

/// How many leases have ended, by the guards' state or, for some, according to the server.
async fn lost(guards: &[MutexGuard]) -> Result<f64> {
    let held =
        |guard: &MutexGuard| matches!(guard.state(), LeaseState::Held | LeaseState::Uncertain);
    let mut lost = guards.iter().filter(|guard| !held(guard)).count();
    let step = (guards.len() / VERIFIED).max(1);
    for guard in guards.iter().step_by(step).filter(|guard| held(guard)) {
        lost += usize::from(guard.verify().await.is_err());
    }
    Ok(count(lost))
}
