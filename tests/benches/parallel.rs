//! Acquires and releases by 64 tasks at the same time, each on a name of its own, over one connection.

use anyhow::Result;

use crate::Effort;
use crate::pairs::{self, Ground, Sample, Way};
use crate::report::{Row, Target};
use crate::rounds::in_turns;

/// Enough that the connection never idles.
const TASKS: usize = 64;

/// The target for the lock's throughput, relative to the scripts alone.
const TARGET: Target = Target::AtLeast(0.9);

/// Compares the lock with its own scripts alone.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let ground = Ground::start().await?;
    let count = effort.pairs / 4;
    let round = async |way| {
        let works = (0..TASKS).map(|task| ground.work(way, &format!("parallel {task:02}"), count));
        Sample::take(works.collect::<Result<_>>()?).await
    };
    let samples = in_turns(&Way::ALL, effort.rounds, round).await?;
    ground.stop().await?;
    pairs::rows(
        "parallel",
        "/s",
        &samples,
        |sample| sample.throughput,
        TARGET,
    )
}
