//! Every state of a Redlock on three servers within small bounds: two rivals, one crash; and mistakes that the same search must
//! catch.

use anyhow::Result;
use lockkeeper_testkit::mutants::engine::{self, Mutant};
use lockkeeper_testkit::rounds::{Bounds, Report, Violation, search};

fn searched(bounds: Bounds) -> Result<Report> {
    let begun = std::time::Instant::now();
    let report = search(bounds)?;
    println!("{bounds:?}\n{report}\n{:?}", begun.elapsed());
    Ok(report)
}

fn holds_everywhere(bounds: Bounds) -> Result<()> {
    let report = searched(bounds)?;
    assert!(report.violation.is_none() && report.finished, "{report}");
    assert!(report.held > 0, "nobody ever holds");
    Ok(())
}

#[test]
fn no_overlap_and_tokens_in_order_with_two_rivals_and_one_crash() -> Result<()> {
    holds_everywhere(Bounds::quick()[0])
}

#[test]
fn no_overlap_and_tokens_in_order_with_two_rivals_and_a_request_in_trouble() -> Result<()> {
    holds_everywhere(Bounds::quick()[1])
}

#[test]
fn no_overlap_and_tokens_in_order_with_two_rivals_who_renew() -> Result<()> {
    holds_everywhere(Bounds::quick()[2])
}

#[test]
fn no_overlap_and_tokens_in_order_with_a_rival_who_begins_a_second_round() -> Result<()> {
    holds_everywhere(Bounds::quick()[3])
}

/// What the search finds within these bounds with this mistake, and does not without.
fn caught(mutant: Mutant, bounds: Bounds) -> Result<Violation> {
    let report = engine::with(mutant, || searched(bounds))?;
    match report.violation {
        Some((violation, _)) => Ok(violation),
        None => anyhow::bail!("{mutant:?} is not caught: {report}"),
    }
}

/// With a server that two rivals cannot reach each, a majority of those that answered is none.
#[test]
fn a_quorum_of_the_servers_that_answered_is_caught() -> Result<()> {
    let bounds = Bounds {
        faults: 2,
        ticks: 0,
        ..Bounds::SMALL
    };
    caught(Mutant::QuorumOfAnswers, bounds).map(drop)
}

/// With a server that loses the claim between its grant and the write-back.
#[test]
fn a_write_back_that_counts_where_the_claim_is_gone_is_caught() -> Result<()> {
    let violation = caught(Mutant::GoneWriteBackCounts, Bounds::quick()[0])?;
    assert!(
        matches!(violation, Violation::NoMajority(_)),
        "{violation:?}"
    );
    Ok(())
}

/// With a leave of the first round that is executed in the second.
#[test]
fn a_claim_that_is_used_again_in_the_next_round_is_caught() -> Result<()> {
    let bounds = Bounds {
        one_claim: true,
        ..Bounds::quick()[3]
    };
    let report = searched(bounds)?;
    assert!(report.violation.is_some(), "{report}");
    Ok(())
}
