//! Every state of locks over several names of one server within small bounds. The mistakes that the same search must catch are
//! in `search.rs`.

use anyhow::Result;
use lockkeeper_testkit::search::{Scope, Sets};
use lockkeeper_testkit::third;

use crate::proofs::search::holds_everywhere;

#[test]
fn sets_that_overlap_exclude_one_another_in_every_state_nearby() -> Result<()> {
    for sets in [Sets::SMALL, Sets::SMALL_OF_MUTEXES, Sets::SMALL_OF_A_QUEUE] {
        holds_everywhere(&Scope::Sets(Sets { ticks: 1, ..sets }))?;
    }
    Ok(())
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn sets_that_overlap_exclude_one_another_in_every_state() -> Result<()> {
    third::of(Scope::of("multi", false))
        .iter()
        .try_for_each(holds_everywhere)
}
