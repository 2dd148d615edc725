//! Histories of a Redlock from seeds, on paused time: the real engine over five embedded servers that are killed and come back
//! empty, stand still, and have clocks up to a second apart that creep forward and step back; between them and some processes
//! a network that delays, loses and reorders requests and replies. Then fair weather, and the end.
//!
//! What must hold: never two believe; tokens increase from grant to grant, and a majority has answered for each; what is let
//! go is free long before its lease would have ended, as soon as the servers answer; everybody is served in the end, and
//! nothing is left.
//!
//! | module | what |
//! |---|---|
//! | `plan` | what chance decides beforehand |
//! | `link` | one process's way to one server, and what becomes of requests on it |
//! | `world` | the servers, what befalls them, who believes, what happened |

mod link;
mod plan;
mod world;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Client, Redlock};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::simulation::{Outcome, Violation};
use link::Link;
use plan::Plan;
use world::World;

/// By when everybody has been served at the latest.
const SERVED: Duration = Duration::from_secs(600);

/// For how long tokens may be remembered when nobody uses the name any more.
const FORGOTTEN: Duration = Duration::from_secs(20 * 60);

/// Runs the history of a seed; with `keep_lines` it can be read afterwards.
///
/// # Errors
///
/// If there is no runtime to be had from the system.
pub fn run(seed: u64, keep_lines: bool) -> std::io::Result<Outcome> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    Ok(runtime.block_on(async {
        let world = World::new(Plan::new(seed), keep_lines);
        tokio::select! {
            biased;
            () = world.alarm.notified() => {}
            told = history(&world) => {
                if let Err(violation) = told {
                    world.violate(violation);
                }
            }
        }
        world.outcome()
    }))
}

async fn history(world: &Arc<World>) -> Result<(), Violation> {
    let plan = &world.plan;
    world.tell(format_args!("{plan:?}"));
    let mut random = Rng::with_seed(plan.seed_of(1));
    let mut clients = Vec::new();
    let mut locks = Vec::new();
    for process in 0..plan.processes {
        let mine: Vec<Client> = (0..plan::SERVERS)
            .map(|place| client(world, process, place, &mut random))
            .collect::<Result<_, _>>()?;
        let lock = Redlock::new(&mine, plan::NAME).map_err(unexpected("no lock"))?;
        locks.push(lock);
        clients.extend(mine);
    }
    let weather = tokio::spawn(Arc::clone(world).weather(random.fork()));
    let mut working = JoinSet::new();
    for (process, lock) in locks.iter().cloned().enumerate() {
        let (world, random) = (Arc::clone(world), random.fork());
        working.spawn(async move { work(&world, process, &lock, random).await });
    }
    while working.join_next().await.is_some() {}
    weather.abort();
    world.fair_weather();
    sleep(world.settled()).await;
    if let Some(held) = world.held() {
        return Err(violation("a claim left behind", held));
    }
    let mut serving = JoinSet::new();
    for (process, lock) in locks.into_iter().enumerate() {
        let world = Arc::clone(world);
        serving.spawn(async move { serve(&world, process, &lock).await });
    }
    while let Some(served) = serving.join_next().await {
        served.map_err(unexpected("a panic"))??;
    }
    for client in clients {
        client.close().await;
    }
    sleep(FORGOTTEN).await;
    match world.keys().pop() {
        Some(key) => Err(violation("a key left behind", key)),
        None => Ok(()),
    }
}

fn client(
    world: &Arc<World>,
    process: usize,
    place: usize,
    random: &mut Rng,
) -> Result<Client, Violation> {
    let link = Link::new(Arc::clone(world), process, place, random.fork());
    let settings = Client::builder().ttl(world.plan.ttl).seed(random.u64(..));
    settings
        .build(Arc::new(link))
        .map_err(unexpected("no client"))
}

/// Takes the lock again and again, holds it for a while and lets it go, until the storm is over.
async fn work(world: &World, process: usize, lock: &Redlock, mut random: Rng) {
    let ttl = world.plan.ttl;
    while Instant::now() < world.calm {
        let mine = if random.u8(..3) == 0 { ttl / 2 } else { ttl };
        let rest = world.calm - Instant::now();
        let patience = ttl.mul_f64(random.f64() * 2.0).min(rest);
        let asking = lock.acquire().ttl(mine);
        let asked = match random.u8(..5) {
            0 => lock.try_acquire().ttl(mine).await,
            1 => match timeout(patience, asking.into_future()).await {
                Ok(asked) => asked.map(Some),
                Err(_) => Ok(None),
            },
            2 => asking.no_renewal().wait_for(patience).await.map(Some),
            _ => asking.wait_for(patience).await.map(Some),
        };
        let Ok(Some(guard)) = asked else {
            sleep(patience / 8).await;
            continue;
        };
        world.granted(process, &guard);
        let held = ttl.mul_f64(random.f64() * random.f64() * 3.0);
        let rest = world.calm - Instant::now();
        let _ = timeout(held.min(rest), guard.lost()).await;
        if random.bool() {
            let _ = guard.release().await;
        } else {
            drop(guard);
        }
        world.tell(format_args!("p{process} lets go"));
    }
}

/// Takes the lock in fair weather.
async fn serve(world: &World, process: usize, lock: &Redlock) -> Result<(), Violation> {
    let guard = timeout(SERVED, lock.acquire().into_future()).await;
    let guard = guard.map_err(unexpected("never served"))?;
    let guard = guard.map_err(unexpected("not served"))?;
    world.granted(process, &guard);
    sleep(Duration::from_millis(5)).await;
    guard.release().await.map_err(unexpected("not released"))?;
    Ok(())
}

fn violation(rule: &'static str, what: String) -> Violation {
    Violation { rule, what }
}

fn unexpected<E: std::fmt::Display>(rule: &'static str) -> impl Fn(E) -> Violation {
    move |error| violation(rule, error.to_string())
}

/// The error of a request without an answer.
fn silence() -> lockkeeper_core::store::StoreError {
    lockkeeper_core::store::StoreError::unknown("no answer in time")
}
