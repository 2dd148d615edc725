//! What the locks of a workload cost: requests, messages and subscriptions.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::simulation::checks::{Verb, claims, verb};
use crate::simulation::run::Outcome;

/// What each figure counts.
const FIGURES: [&str; 5] = [
    "scripts a grant",
    "keep-alives a claim and second",
    "claims a batch",
    "messages a grant",
    "subscriptions a grant",
];

/// By how much a figure may differ, as a share of it.
const TOLERANCE: f64 = 0.01;

/// The figures of a workload, in the order of [`FIGURES`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Economy([f64; FIGURES.len()]);

impl Economy {
    pub(super) fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        let (mut grants, mut scripts, mut messages, mut subscriptions) = (0, 0, 0, 0);
        let (mut batches, mut kept) = (0, 0);
        let mut lived = Duration::ZERO;
        for outcome in outcomes {
            let record = &outcome.record;
            grants += outcome.grants;
            scripts += record.sent.len();
            messages += record.messages;
            subscriptions += record.subscriptions;
            let mut lives = BTreeMap::new();
            for sent in &record.sent {
                let (verb, claims) = (verb(&sent.call), claims(&sent.call));
                if matches!(verb, Verb::Heartbeat | Verb::Renew) {
                    batches += 1;
                    kept += claims.len();
                }
                for claim in claims {
                    let key = (sent.link, sent.server, claim);
                    lives.entry(key).or_insert((sent.at, sent.at)).1 = sent.at;
                }
            }
            lived += lives.values().map(|(from, until)| *until - *from).sum();
        }
        let a_grant = |count: u64| ratio(count, grants);
        let [scripts, kept, batches] = [scripts, kept, batches].map(|it: usize| it as u64);
        Self([
            a_grant(scripts),
            to_f64(kept) / lived.as_secs_f64(),
            ratio(kept, batches),
            a_grant(messages),
            a_grant(subscriptions),
        ])
    }

    /// What differs by more than the tolerance.
    pub(super) fn difference(&self, stored: &Self) -> Option<String> {
        let figures = FIGURES.iter().zip(self.0.iter().zip(stored.0));
        // Not the other way round: no number is within 1 % of NaN.
        let is_near = |found: f64, stored: f64| (found - stored).abs() <= stored * TOLERANCE;
        let mut moved = figures.filter(|(_, (found, stored))| !is_near(**found, *stored));
        moved.next().map(|(what, (found, stored))| {
            format!("{found:.4} {what}, expected {stored:.4} and at most 1 % more or less")
        })
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let figures = line.split(", ").zip(FIGURES);
        let figures = figures.map(|(text, what)| text.strip_suffix(what)?.trim().parse().ok());
        let figures: Vec<f64> = figures.collect::<Option<_>>()?;
        figures.try_into().ok().map(Self)
    }
}

impl fmt::Display for Economy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.0.iter().zip(FIGURES);
        let figures: Vec<_> = figures
            .map(|(figure, what)| format!("{figure:.4} {what}"))
            .collect();
        f.write_str(&figures.join(", "))
    }
}

fn ratio(count: u64, of: u64) -> f64 {
    to_f64(count) / to_f64(of.max(1))
}

fn to_f64(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
