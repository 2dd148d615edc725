//! Every state of a Redlock on three servers within small bounds: two contenders, one ending. The mistakes that the same search
//! must catch are in `search.rs`.

use anyhow::Result;
use lockkeeper_testkit::search::{Rounds, Scope};
use lockkeeper_testkit::third;

use crate::proofs::search::holds_everywhere;

#[test]
fn no_overlap_and_tokens_in_order_with_two_contenders() -> Result<()> {
    holds_everywhere(&Scope::Rounds(Rounds::SMALL))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_one_thing_that_goes_wrong() -> Result<()> {
    third::of(Scope::of("redlock", false))
        .iter()
        .try_for_each(holds_everywhere)
}
