//! **Pure**: which locks are shown, and in which order.

use std::cmp::{Ordering, Reverse};

use serde::Deserialize;

use super::Row;

/// How locks are sorted. Equal locks are sorted by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// Most waiters first.
    #[default]
    Waiters,
    Name,
    /// The longest held first.
    #[serde(rename = "held")]
    Age,
    /// The lease that ends first comes first.
    Left,
}

impl Order {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Waiters => "waiters",
            Self::Name => "name",
            Self::Age => "age",
            Self::Left => "left",
        }
    }

    /// The order that follows this one, in a cycle.
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Waiters => Self::Name,
            Self::Name => Self::Age,
            Self::Age => Self::Left,
            Self::Left => Self::Waiters,
        }
    }

    pub(crate) fn compare(self, one: &Row, other: &Row) -> Ordering {
        let first = match self {
            Self::Name => Ordering::Equal,
            Self::Waiters => Reverse(one.lock.waiters).cmp(&Reverse(other.lock.waiters)),
            Self::Age => Reverse(one.held_ms).cmp(&Reverse(other.held_ms)),
            Self::Left => soonest(one).cmp(&soonest(other)),
        };
        first.then_with(|| one.lock.name.cmp(&other.lock.name))
    }
}

/// How much is left, at the time of the sample, of the lease that ends first. Locks that are held without end or not held
/// come last.
fn soonest(row: &Row) -> u64 {
    let left = row.lock.holders.iter().filter_map(|part| part.left_ms);
    let left = left.min().unwrap_or(u64::MAX);
    left.saturating_sub(row.looked_ms)
}

/// Whether the name, the kind or a displayed holder of a lock contains this text, in upper or lower case.
pub(crate) fn has(row: &Row, text: &str) -> bool {
    let text = text.to_lowercase();
    let has = |it: &str| it.to_lowercase().contains(&text);
    let lock = &row.lock;
    has(&lock.name)
        || lock.kind.as_deref().is_some_and(has)
        || lock.holders.iter().any(|part| has(&part.described()))
}
