//! Measures in turns, and summarises many measurements.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// The median of several values, with the least and the greatest of them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// Half of the values are below.
    pub(crate) median: f64,
    /// The least value.
    pub(crate) min: f64,
    /// The greatest value.
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of these values, of which there must be at least one.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Result<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let min = *values.first().context("nothing was measured")?;
        let max = *values.last().context("nothing was measured")?;
        // Of an even number, between the two in the middle.
        let middle = [(values.len() - 1) / 2, values.len() / 2].map(|at| values[at]);
        Ok(Self {
            median: f64::midpoint(middle[0], middle[1]),
            min,
            max,
        })
    }

    /// The spread of a single measurement.
    pub(crate) const fn once(value: f64) -> Self {
        Self {
            median: value,
            min: value,
            max: value,
        }
    }

    /// The spread of the ratios of two series, round by round: what slows down a whole round cancels out.
    pub(crate) fn of_ratios(above: &[f64], below: &[f64]) -> Result<Self> {
        Self::of(above.iter().zip(below).map(|(above, below)| above / below))
    }
}

/// Lets the contestants measure one after the other, round by round, and returns each one's measurements in order.
///
/// Each round begins with another contestant, because the first in a round may find a sleeping processor. The first round only
/// warms up, so one more is run than asked for.
pub(crate) async fn in_turns<W: Copy, T>(
    contestants: &[W],
    rounds: usize,
    measure: impl AsyncFn(W) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut series: Vec<Vec<T>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for turn in 0..contestants.len() {
            let index = (round + turn) % contestants.len();
            let measured = measure(contestants[index]).await?;
            if round > 0 {
                series[index].push(measured);
            }
        }
    }
    Ok(series)
}
