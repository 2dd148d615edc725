//! One history, from its seed to its verdict.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::Value;
use lockkeeper_memory::MemoryStore;
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;

use super::faults::FaultSchedule;
use super::options::Options;
use super::plan::Plan;
use super::record::Record;
use super::trace::Violation;
use super::workload::Workload;
use super::world::World;

/// How long an unused name may leave keys on the server: longer than tokens are remembered.
const FORGOTTEN: Duration = Duration::from_secs(20 * 60);

/// The outcome of a history.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed of the history.
    pub seed: u64,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// How many scripts the servers were asked to run.
    pub requests: u64,
    /// How many leases tasks were given.
    pub grants: u64,
    /// The broken rule, if any.
    pub violation: Option<Violation>,
    /// All events, if they were asked for.
    pub lines: Vec<String>,
    /// What clients sent and heard, if it was asked for.
    pub(super) record: Record,
}

/// Runs the history with this seed.
///
/// # Errors
///
/// If the system cannot provide a runtime.
pub fn run(workload: Workload, seed: u64, options: Options) -> std::io::Result<Outcome> {
    let plan = match options.beyond {
        Some(beyond) => Plan::beyond(seed, beyond),
        None => workload.plan(seed),
    };
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let outcome = runtime.block_on(async {
        let places = workload.places(&plan);
        let world = World::new(plan, places, options);
        let network = tokio::spawn(Arc::clone(&world).run_network());
        tokio::select! {
            biased;
            () = world.alarm.notified() => {}
            () = history(&world, workload) => {}
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
            record: world.record(std::mem::take).unwrap_or_default(),
        }
    });
    Ok(outcome)
}

async fn history(world: &Arc<World>, workload: Workload) {
    world.tell(format_args!("{:?}", world.plan));
    let worked = async {
        let mut schedule = FaultSchedule::new(world, workload)?;
        schedule.storm().await?;
        schedule.calm().await;
        schedule.finish().await;
        world.check(|checks| checks.look_at_end(&world.servers));
        schedule.stop().await;
        Ok::<(), lockkeeper::Error>(())
    };
    if let Err(error) = worked.await {
        world.violate("no client", error.to_string());
    }
    // One task is the network's own.
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
    if let Some(what) = world.mistold() {
        world.violate("an end that was not told, or twice", what);
    }
    sleep(FORGOTTEN).await;
    let mut keys = world.servers.iter().flat_map(MemoryStore::keys);
    // The counters for tokens belong to no name.
    if let Some(key) = keys.find(|key| !key.starts_with("lockkeeper.fence:")) {
        world.violate("a key left behind", key);
    }
    world.tell(format_args!("all is over"));
}
