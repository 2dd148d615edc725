//! The third of the long searches and histories that a run does: continuous integration does another one for each commit.

use std::ops::RangeInclusive;

/// Environment variable with the number of the third: 0, 1 or 2. Without it, a run does everything.
const VARIABLE: &str = "LOCKKEEPER_TEST_THIRD";

/// The third that the environment names.
///
/// # Panics
///
/// If it names something else.
fn third() -> Option<u64> {
    let named = std::env::var(VARIABLE).ok()?;
    let third = named.parse().ok().filter(|third| *third < 3);
    assert!(third.is_some(), "{VARIABLE} is 0, 1 or 2, not {named:?}");
    third
}

/// Keeps every third item.
pub fn of<T>(items: Vec<T>) -> Vec<T> {
    match third() {
        Some(third) => every_third(third, items),
        None => items,
    }
}

/// The seeds to use out of those from 1 to `number`.
pub fn of_seeds(number: u64) -> RangeInclusive<u64> {
    let seeds = third().map_or(1..=number, |third| part(third, number));
    println!("seeds {} to {}", seeds.start(), seeds.end());
    seeds
}

/// The items of this third.
pub fn every_third<T>(third: u64, items: Vec<T>) -> Vec<T> {
    let places = (0..3).cycle();
    let items = items.into_iter().zip(places);
    items
        .filter_map(|(item, place)| (place == third).then_some(item))
        .collect()
}

/// The seeds of this third, out of those from 1 to `number`.
pub fn part(third: u64, number: u64) -> RangeInclusive<u64> {
    number * third / 3 + 1..=number * (third + 1) / 3
}
