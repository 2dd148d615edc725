//! One history, from its seed to its verdict.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::Value;
use lockkeeper_memory::MemoryStore;
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;

use super::beyond::Beyond;
use super::checks::Violation;
use super::crew::{Alone, Crew};
use super::plan::Plan;
use super::species::Species;
use super::weather::Weather;
use super::world::World;
use crate::mutants::Patch;

/// For how long a name that nobody uses may leave keys on the server: the token's memory, and then some.
const FORGOTTEN: Duration = Duration::from_secs(20 * 60);

/// What came of a history.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// From which it follows.
    pub seed: u64,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// How many scripts the servers were asked to run.
    pub requests: u64,
    /// How many leases somebody was given.
    pub grants: u64,
    /// What must not have happened, and did.
    pub violation: Option<Violation>,
    /// Everything that happened, if that was asked for.
    pub lines: Vec<String>,
}

/// Runs the history of a seed; with `keep_lines` it can be read afterwards.
///
/// # Errors
///
/// If there is no runtime to be had from the system.
pub fn run<S: Species>(seed: u64, keep_lines: bool) -> std::io::Result<Outcome> {
    run_patched::<S>(seed, keep_lines, None)
}

/// The same on a server that runs one of the scripts with a mistake in it.
///
/// # Errors
///
/// As for [`run`].
pub fn run_patched<S: Species>(
    seed: u64,
    keep_lines: bool,
    patch: Option<Patch>,
) -> std::io::Result<Outcome> {
    run_with(&Alone::<S>::default(), Plan::new(seed), keep_lines, patch)
}

/// The same history, but for one thing that the guarantees exclude.
///
/// # Errors
///
/// As for [`run`].
pub fn run_beyond<S: Species>(
    seed: u64,
    keep_lines: bool,
    beyond: Beyond,
) -> std::io::Result<Outcome> {
    run_with(
        &Alone::<S>::default(),
        Plan::beyond(seed, beyond),
        keep_lines,
        None,
    )
}

/// Runs a history as planned, with this crew.
pub(super) fn run_with(
    crew: &dyn Crew,
    plan: Plan,
    keep_lines: bool,
    patch: Option<Patch>,
) -> std::io::Result<Outcome> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let outcome = runtime.block_on(async {
        let (seed, places) = (plan.seed, crew.places(&plan));
        let world = World::new(plan, places, keep_lines, patch);
        let network = tokio::spawn(Arc::clone(&world).run_network());
        tokio::select! {
            biased;
            () = world.alarm.notified() => {}
            () = history(&world, crew) => {}
        }
        network.abort();
        let violation = world.violation();
        let (requests, grants) = (world.requests(), world.check(|checks| checks.grants()));
        let mut trace = world.trace();
        Outcome {
            seed,
            hash: trace.hash(),
            events: trace.events(),
            requests,
            grants,
            violation,
            lines: trace.take_lines(),
        }
    });
    Ok(outcome)
}

async fn history(world: &Arc<World>, crew: &dyn Crew) {
    world.tell(format_args!("{:?}", world.plan));
    let worked = async {
        let mut weather = Weather::new(world, crew)?;
        weather.storm().await?;
        weather.calm().await;
        weather.finish().await;
        world.check(|checks| checks.look_at_end(&world.servers));
        weather.leave().await;
        Ok::<(), lockkeeper::Error>(())
    };
    if let Err(error) = worked.await {
        world.violate("no client", error.to_string());
    }
    // The network's own.
    let tasks = Handle::current().metrics().num_alive_tasks() - 1;
    if tasks > 0 {
        world.violate("a task left behind", format!("{tasks} of them"));
    }
    for server in &world.servers {
        for key in server.keys() {
            let left = server.execute(&["PTTL", &key]);
            if !left.is_ok_and(|left| matches!(left, Value::Integer(0..))) {
                world.violate("a key for ever", key);
            }
        }
    }
    sleep(FORGOTTEN).await;
    if let Some(key) = world.servers.iter().flat_map(MemoryStore::keys).next() {
        world.violate("a key left behind", key);
    }
    world.tell(format_args!("all is over"));
}
