//! Acquires and releases by 64 tasks at the same time, each on a name of its own, over one connection.

use anyhow::Result;

use crate::Effort;
use crate::pairs::{Ground, Sample, Way};
use crate::report::{Row, Target};
use crate::rounds::{Spread, in_turns};

const PART: &str = "parallel";

/// Enough that the connection never idles.
const TASKS: usize = 64;

/// How much of the bare scripts' throughput the lock must reach.
const TARGET: Target = Target::AtLeast(0.9);

/// Compares the lock with its own scripts called bare.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let ground = Ground::start().await?;
    let pairs = effort.pairs / 4;
    let round = async |way| {
        let works = (0..TASKS).map(|task| ground.work(way, &format!("parallel {task:02}"), pairs));
        Sample::take(works.collect::<Result<_>>()?).await
    };
    let samples = in_turns(&Way::ALL, effort.rounds, round).await?;
    ground.stop().await?;

    let series = |of: fn(&Sample) -> f64| -> Vec<Vec<f64>> {
        samples
            .iter()
            .map(|samples| samples.iter().map(of).collect())
            .collect()
    };
    let throughput = series(|sample| sample.throughput);
    let processor = series(|sample| sample.processor);
    let row = |what: &str, unit, spread| Row::new(PART, what, unit, spread);
    let each = |values: &[f64]| Spread::of(values.iter().copied());
    let ratio = |index: usize| Spread::of_ratios(&throughput[0], &throughput[index]);
    Ok(vec![
        row("acquire + release", "/s", each(&throughput[0])?),
        row("the scripts, by the store", "/s", each(&throughput[1])?),
        row("the scripts, by fred", "/s", each(&throughput[2])?),
        row("lock / store", "×", ratio(1)?).target(TARGET),
        row("lock / fred", "×", ratio(2)?).target(TARGET),
        row("client CPU, lock", "µs", each(&processor[0])?),
        row("client CPU, store", "µs", each(&processor[1])?),
        row("client CPU, fred", "µs", each(&processor[2])?),
    ])
}
