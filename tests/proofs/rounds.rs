//! Every state of a Redlock on three servers within small bounds: two contenders, one ending. The mistakes that the same search
//! must catch are in `search.rs`.

use anyhow::Result;
use lockkeeper_testkit::search::{Rounds, Scope};

use crate::proofs::search::holds_everywhere;

#[test]
fn no_overlap_and_tokens_in_order_with_two_contenders() -> Result<()> {
    holds_everywhere(&Scope::Rounds(Rounds::SMALL))
}

/// Defines a test for each of [`Rounds::quick`].
macro_rules! rounds {
    ($($name:ident $nth:literal;)*) => {$(
        #[test]
        #[ignore = "long: `cargo xtask prove` runs it"]
        fn $name() -> Result<()> {
            holds_everywhere(&Scope::Rounds(Rounds::quick()[$nth]))
        }
    )*};
}

rounds! {
    no_overlap_and_tokens_in_order_with_a_crash 0;
    no_overlap_and_tokens_in_order_with_a_request_in_trouble 1;
    no_overlap_and_tokens_in_order_with_leases_that_are_renewed 2;
    no_overlap_and_tokens_in_order_with_a_second_round 3;
    no_overlap_and_tokens_in_order_with_two_rounds_that_propose_almost_the_same 4;
    no_overlap_and_tokens_in_order_with_a_server_that_comes_back_empty 5;
    no_overlap_and_tokens_in_order_with_a_proposal_from_a_clock_far_ahead 6;
}
