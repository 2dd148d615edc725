//! Histories of a Redlock from seeds: five servers that are killed, stand still and have clocks a second apart, behind a bad
//! network. Never two believe, and tokens increase; and mistakes of others that these histories must catch.

use std::collections::BTreeSet;

use lockkeeper_testkit::majority::run;
use lockkeeper_testkit::mutants::engine::Mutant;
use lockkeeper_testkit::mutants::histories;
use lockkeeper_testkit::simulation::Violation;

#[test]
fn histories_keep_every_rule() {
    keep_every_rule(10);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn three_hundred_histories_keep_every_rule() {
    keep_every_rule(300);
}

/// These histories do.
fn keep_every_rule(number: u64) {
    let (mut hashes, mut requests) = (BTreeSet::new(), 0);
    for seed in 1..=number {
        let outcome = run(seed, false).unwrap();
        assert_eq!(
            outcome.violation, None,
            "to repeat it: cargo xtask simulate --kind redlock --seed {seed} --histories 1 --verbose"
        );
        hashes.insert(outcome.hash);
        requests += outcome.requests;
    }
    println!("proved {number} histories");
    assert_eq!(u64::try_from(hashes.len()), Ok(number));
    assert!(requests > number * 100, "{requests} scripts");
}

#[test]
fn the_same_seed_gives_the_same_history() {
    give_the_same_histories(6);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn thirty_seeds_give_the_same_histories() {
    give_the_same_histories(30);
}

fn give_the_same_histories(seeds: u64) {
    for seed in 1..=seeds {
        let (once, again) = (run(seed, true).unwrap(), run(seed, true).unwrap());
        assert_eq!(once.lines, again.lines, "seed {seed}");
        assert_eq!(once.hash, again.hash, "seed {seed}");
        assert!(once.events > 0);
    }
}

/// The first history in which the defect shows, and which breaks no rule without it.
fn found(mutant: Mutant) -> Violation {
    let broken = histories::find_in_majority(mutant).unwrap();
    let broken = broken.unwrap_or_else(|| panic!("{mutant:?} was not found"));
    println!("{mutant:?}: {broken:?}\nproved 1 hunts of mutants");
    assert_eq!(broken.without, None);
    broken.violation
}

#[test]
fn a_claim_that_is_used_again_in_the_next_round_is_found() {
    found(Mutant::ReuseClaim);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn a_write_back_that_counts_where_the_claim_is_gone_is_found() {
    let violation = found(Mutant::GoneWriteBackCounts);
    assert_eq!(violation.rule, "a grant without a majority");
}

#[test]
fn a_quorum_of_those_that_answered_is_found() {
    found(Mutant::QuorumOfAnswers);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn a_release_that_stops_at_the_first_error_is_found() {
    let violation = found(Mutant::ReleaseStopsAtFirstError);
    assert_eq!(violation.rule, "a claim left behind");
}
