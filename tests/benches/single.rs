//! An acquire and a release without contention, one after the other in one task.

use anyhow::Result;

use crate::Effort;
use crate::pairs::{self, Ground, Sample, Way};
use crate::report::{Row, Target};
use crate::rounds::in_turns;

/// How much slower than its scripts alone the lock may be.
const TARGET: Target = Target::AtMost(1.05);

/// Compares the lock with its own scripts alone.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let ground = Ground::start().await?;
    let round = async |way| Sample::take(vec![ground.work(way, "single", effort.pairs)?]).await;
    let samples = in_turns(&Way::ALL, effort.rounds, round).await?;
    ground.stop().await?;
    pairs::rows("single", "µs", &samples, |sample| sample.latency, TARGET)
}
