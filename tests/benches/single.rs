//! An acquire and a release, nobody competing, one after the other in one task.

use anyhow::Result;

use crate::Effort;
use crate::pairs::{Ground, Sample, Way};
use crate::report::{Row, Target};
use crate::rounds::{Spread, in_turns};

const PART: &str = "single";

/// How much slower than the bare scripts the lock may be.
const TARGET: Target = Target::AtMost(1.05);

/// Compares the lock with its own scripts called bare.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let ground = Ground::start().await?;
    let round = async |way| Sample::take(vec![ground.work(way, "single", effort.pairs)?]).await;
    let samples = in_turns(&Way::ALL, effort.rounds, round).await?;
    ground.stop().await?;

    let series = |of: fn(&Sample) -> f64| -> Vec<Vec<f64>> {
        samples
            .iter()
            .map(|samples| samples.iter().map(of).collect())
            .collect()
    };
    let latency = series(|sample| sample.latency);
    let processor = series(|sample| sample.processor);
    let row = |what: &str, unit, spread| Row::new(PART, what, unit, spread);
    let each = |values: &[f64]| Spread::of(values.iter().copied());
    let ratio = |index: usize| Spread::of_ratios(&latency[0], &latency[index]);
    Ok(vec![
        row("acquire + release", "µs", each(&latency[0])?),
        row("the scripts, by the store", "µs", each(&latency[1])?),
        row("the scripts, by fred", "µs", each(&latency[2])?),
        row("lock / store", "×", ratio(1)?).target(TARGET),
        row("lock / fred", "×", ratio(2)?).target(TARGET),
        row("client CPU, lock", "µs", each(&processor[0])?),
        row("client CPU, store", "µs", each(&processor[1])?),
        row("client CPU, fred", "µs", each(&processor[2])?),
    ])
}
