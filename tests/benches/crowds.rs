//! Many waiters for many names: what waiting costs in work and memory, on one server and on a cluster, and whether each name
//! is handed on.
//!
//! Tasks of one client wait, ten for each name or one. Another client of the same process holds the names, so the figures include the
//! renewal of its leases: what [`held`](crate::held) shows for as many leases as there are names.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper::{Client, FairLock, Guard, Mutex};
use lockkeeper_testkit::subject::Subject;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

use crate::meters::{count, own_memory, scripts, servers_memory, watch};
use crate::pairs::micros;
use crate::place::Place;
use crate::report::Row;
use crate::rounds::Spread;
use crate::{Effort, PATIENCE};

/// Waiters per name, where there are several.
const WAITERS: usize = 10;

/// How many names get their waiters at the same time.
const TOGETHER: usize = 64;

/// How many names are handed on and timed.
const TIMED: usize = 1_000;

/// The number of waiters for which the targets of scripts and processor time are given.
const TARGET_WAITERS: f64 = 100_000.0;

/// Three periods of heartbeats, and two of the safety poll: the default waiter ttl.
const PERIODS: Duration = Duration::from_secs(10);

/// Measures waiters for mutexes and for fair locks, on one server and on a cluster.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let names = effort.names;
    let many = Crowd {
        names,
        each: WAITERS,
        asking: WAITERS,
        effort,
        fresh: false,
    };
    let fresh = Crowd {
        fresh: true,
        ..many
    };
    let mut rows = wait::<FairLock>("fair", fresh, Place::one().await?).await?;
    rows.extend(wait::<FairLock>("fair", many, Place::cluster().await?).await?);
    let single = Crowd {
        names: names * WAITERS,
        each: 1,
        asking: 1,
        ..many
    };
    rows.extend(wait::<FairLock>("fair", single, Place::one().await?).await?);
    // Of a client's waiters for a mutex, the first asks at once; the others ask after a long wait.
    let mutex = Crowd { asking: 1, ..many };
    for place in [Place::one().await?, Place::cluster().await?] {
        rows.extend(wait::<Mutex>("mutex", mutex, place).await?);
    }
    Ok(rows)
}

/// A waiter that now holds a name.
struct Grant<S: Subject> {
    name: usize,
    at: Instant,
    guard: S::Guard,
}

/// Who waits for what.
#[derive(Clone, Copy)]
struct Crowd {
    names: usize,
    /// The waiters of each name.
    each: usize,
    /// How many of a name's waiters ask the server at once.
    asking: usize,
    effort: Effort,
    /// As for leases, see [`held`](crate::held).
    fresh: bool,
}

async fn wait<S: Subject>(kind: &str, who: Crowd, place: Place) -> Result<Vec<Row>> {
    let Crowd {
        names,
        each,
        asking,
        effort,
        fresh,
    } = who;
    let (waiting, holding) = (
        place.client(Client::builder()).await?,
        place.client(Client::builder()).await?,
    );
    let mut held = hold::<S>(&holding, names).await?;
    let (grants, mut granted) = mpsc::unbounded_channel();
    let mut crowd = JoinSet::new();
    let (memory, servers_before) = (own_memory(), servers_memory(place.servers()).await?);
    let before = scripts(place.servers()).await?;
    let start = Instant::now();
    let mut joined = Duration::ZERO;
    // In parts, so that requests in flight do not count as the memory of waiters.
    for part in (0..names).step_by(TOGETHER) {
        let last = names.min(part + TOGETHER);
        for number in part * each..last * each {
            let lock = S::new(&waiting, &name(number / each));
            let grants = grants.clone();
            crowd.spawn(async move {
                let guard = lock.acquire().await?;
                let (name, at) = (number / each, Instant::now());
                let told = grants.send(Grant::<S> { name, at, guard });
                told.ok().context("nobody listens")
            });
        }
        while scripts(place.servers()).await? < before + count(last * asking) {
            ensure!(start.elapsed() < 2 * PATIENCE, "not all have joined");
            yield_now().await;
        }
        joined = start.elapsed();
    }
    // Waiters ask once more after they have subscribed, and again after a period of waiting.
    sleep(PERIODS * 2).await;
    if let Some(ended) = crowd.try_join_next() {
        ended??;
        bail!("somebody does not wait");
    }
    let waiters = count(names * each);
    let memory = own_memory()
        .zip(memory)
        .map(|(after, before)| (after - before) / waiters);
    let servers_after = servers_memory(place.servers()).await?;
    let watched = watch(place.servers(), PERIODS * effort.periods).await?;
    ensure!(granted.is_empty(), "somebody got what is held");

    let times = hand_on::<S>(&mut held, &mut granted).await?;
    let start = Instant::now();
    crowd.shutdown().await;
    waiting.close().await;
    let withdrawn = start.elapsed();
    drop(held);
    holding.close().await;

    let row = |what: &str, unit, spread| {
        let what = format!(
            "{kind}, {waiters} on {names} names{}: {what}",
            place.suffix()
        );
        Row::new("crowds", what, unit, spread)
    };
    let once = |what: &str, unit, value| row(what, unit, Spread::once(value));
    let share = waiters / TARGET_WAITERS;
    let mut rows = vec![
        place.aim(once("scripts", "/s", watched.scripts), 400.0 * share),
        once("scripts, busiest second", "/s", watched.busiest),
        once("client CPU", "% of a core", watched.client),
        place.aim(
            once("server CPU", "% of a core", watched.server),
            20.0 * share,
        ),
    ];
    if let Some(memory) = memory.filter(|_| fresh) {
        rows.push(place.aim(once("client memory each", "bytes", memory), 2_048.0));
    }
    let servers = (servers_after - servers_before) / waiters;
    rows.push(once("server memory each", "bytes", servers));
    rows.push(row("hand-over", "µs", Spread::of(times)?));
    rows.push(once("joined in", "s", joined.as_secs_f64()));
    rows.push(once("withdrawn in", "s", withdrawn.as_secs_f64()));
    Ok(rows)
}

/// Hands names on, one after the other. Returns how long each took, µs.
async fn hand_on<S: Subject>(
    held: &mut [Option<S::Guard>],
    granted: &mut mpsc::UnboundedReceiver<Grant<S>>,
) -> Result<Vec<f64>> {
    let number = TIMED.min(held.len());
    let mut times = Vec::with_capacity(number);
    for name in (0..held.len()).step_by(held.len() / number).take(number) {
        let guard = held[name].take().context("it is released already")?;
        let start = Instant::now();
        // Either may be first. If the release fails, the wait ends too.
        let (_, next) = timeout(PATIENCE, async {
            tokio::try_join!(async { anyhow::Ok(Guard::release(guard).await?) }, async {
                anyhow::Ok(granted.recv().await)
            })
        })
        .await
        .with_context(|| format!("nobody was granted {name}"))??;
        let next = next.context("all who wait are gone")?;
        ensure!(
            next.name == name,
            "{name} was released, {} granted",
            next.name
        );
        times.push(micros(next.at - start));
        held[name] = Some(next.guard);
    }
    Ok(times)
}

/// Acquires all names.
async fn hold<S: Subject>(client: &Client, names: usize) -> Result<Vec<Option<S::Guard>>> {
    let mut tasks = JoinSet::new();
    for task in 0..TOGETHER {
        let client = client.clone();
        tasks.spawn(async move {
            let mut guards = Vec::new();
            for number in (task..names).step_by(TOGETHER) {
                let guard = S::new(&client, &name(number)).acquire().await?;
                guards.push((number, guard));
            }
            anyhow::Ok(guards)
        });
    }
    let mut held: Vec<_> = (0..names).map(|_| None).collect();
    while let Some(done) = tasks.join_next().await {
        for (number, guard) in done?? {
            held[number] = Some(guard);
        }
    }
    Ok(held)
}

/// 32 bytes, about as long as a name that contains a UUID.
fn name(number: usize) -> String {
    format!("bench:crowd:name:{number:015}")
}
