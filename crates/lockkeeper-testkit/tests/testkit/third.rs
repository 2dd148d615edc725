//! The thirds of long searches and histories.

use lockkeeper_testkit::third::{every_third, part};

#[test]
fn three_thirds_are_everything_once() {
    let items: Vec<u64> = (1..=10).collect();
    let mut listed: Vec<_> = (0..3)
        .flat_map(|it| every_third(it, items.clone()))
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, items);
    let seeds: Vec<_> = (0..3).flat_map(|third| part(third, 10)).collect();
    assert_eq!(seeds, items);
}
