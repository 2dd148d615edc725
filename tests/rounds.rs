//! Every state of a Redlock on three servers within small bounds: two rivals, one crash; and mistakes that the same search must
//! catch.

use anyhow::Result;
use lockkeeper_testkit::mutants::engine::{self, Mutant};
use lockkeeper_testkit::rounds::{Bounds, Report, search};

/// One crash, of a server or of a rival.
const SMALL: Bounds = Bounds {
    rounds: [1, 1],
    ttl: 1,
    ticks: 1,
    faults: 0,
    crashes: 1,
    renews: false,
    one_claim: false,
    states: 6_000_000,
};

/// Requests in trouble instead.
const TROUBLED: Bounds = Bounds {
    faults: 1,
    crashes: 0,
    ..SMALL
};

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
    holds_everywhere(SMALL)
}

#[test]
fn no_overlap_and_tokens_in_order_with_two_rivals_and_a_request_in_trouble() -> Result<()> {
    holds_everywhere(TROUBLED)
}

/// With a server that two rivals cannot reach each, a majority of those that answered is none.
#[test]
fn a_quorum_of_the_servers_that_answered_is_caught() -> Result<()> {
    let bounds = Bounds {
        faults: 2,
        ticks: 0,
        crashes: 0,
        ..SMALL
    };
    let report = engine::with(Mutant::QuorumOfAnswers, || searched(bounds))?;
    assert!(report.violation.is_some(), "{report}");
    Ok(())
}
