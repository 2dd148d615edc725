//! Every state of a Redlock on three servers within small bounds: two rivals, one crash; and mistakes that the same search must
//! catch.

use anyhow::{Context as _, Result};
use lockkeeper_testkit::mutants::engine::Mutant;
use lockkeeper_testkit::mutants::rounds::MISTAKES;
use lockkeeper_testkit::rounds::{Bounds, Report, Violation, search};

fn searched(bounds: Bounds) -> Result<Report> {
    let begun = std::time::Instant::now();
    let report = search(bounds)?;
    println!("{bounds:?}\n{report}\n{:?}", begun.elapsed());
    println!("proved {} states", report.states);
    Ok(report)
}

fn holds_everywhere(bounds: Bounds) -> Result<()> {
    let report = searched(bounds)?;
    assert!(report.violation.is_none() && report.finished, "{report}");
    assert!(report.held > 0, "nobody ever holds");
    Ok(())
}

#[test]
fn no_overlap_and_tokens_in_order_with_two_rivals() -> Result<()> {
    holds_everywhere(Bounds::SMALL)
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_two_rivals_and_one_crash() -> Result<()> {
    holds_everywhere(Bounds::quick()[0])
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_two_rivals_and_a_request_in_trouble() -> Result<()> {
    holds_everywhere(Bounds::quick()[1])
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_two_rivals_who_renew() -> Result<()> {
    holds_everywhere(Bounds::quick()[2])
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_overlap_and_tokens_in_order_with_a_rival_who_begins_a_second_round() -> Result<()> {
    holds_everywhere(Bounds::quick()[3])
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_mistake_of_a_majority_is_caught() -> Result<()> {
    for mistake in MISTAKES {
        let report = mistake.hunt()?;
        println!("{mistake:?}\n{report}");
        let (violation, _) = report.violation.with_context(|| format!("{mistake:?}"))?;
        println!("proved 1 hunts of mutants");
        // A write-back that counts where the claim is gone overlaps nothing.
        let is_by_majority = matches!(violation, Violation::NoMajority(_));
        assert!(is_by_majority || mistake.mutant != Mutant::GoneWriteBackCounts);
    }
    Ok(())
}
