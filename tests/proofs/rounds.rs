//! Every state of a Redlock on three servers within small bounds: two contenders, one ending. The mistakes that the same search
//! must catch are in `search.rs`.

use anyhow::Result;
use lockkeeper_testkit::search::{Rounds, Scope};

use crate::proofs::search::holds_everywhere;

#[test]
fn no_overlap_and_tokens_in_order_with_two_contenders() -> Result<()> {
    holds_everywhere(&Scope::Rounds(Rounds::SMALL))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_a_crash() -> Result<()> {
    holds_everywhere(&Scope::Rounds(Rounds::quick()[0]))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_a_request_in_trouble() -> Result<()> {
    holds_everywhere(&Scope::Rounds(Rounds::quick()[1]))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_leases_that_are_renewed() -> Result<()> {
    holds_everywhere(&Scope::Rounds(Rounds::quick()[2]))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_a_second_round() -> Result<()> {
    holds_everywhere(&Scope::Rounds(Rounds::quick()[3]))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_two_rounds_that_propose_almost_the_same() -> Result<()> {
    holds_everywhere(&Scope::Rounds(Rounds::quick()[4]))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_a_server_that_comes_back_empty() -> Result<()> {
    holds_everywhere(&Scope::Rounds(Rounds::quick()[5]))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_a_proposal_from_a_clock_far_ahead() -> Result<()> {
    holds_everywhere(&Scope::Rounds(Rounds::quick()[6]))
}
