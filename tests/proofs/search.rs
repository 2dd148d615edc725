//! Every state of every kind within small bounds, and mistakes in the scripts and the engine, which the same searches must
//! catch.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context as _, Result};
use lockkeeper_testkit::kinds::KindModel;
use lockkeeper_testkit::mutants::engine::Mutant;
use lockkeeper_testkit::mutants::searched::{self, Searched};
use lockkeeper_testkit::mutants::{Mistake, Patch, lua};
use lockkeeper_testkit::search::{Bounds, Rule, Scope};
use lockkeeper_testkit::third;

pub(crate) fn holds_everywhere(scope: &Scope) -> Result<()> {
    let report = scope.search()?;
    println!("{scope}\n{report}\nproved {} states", report.states);
    assert!(report.is_good(), "{scope}\n{report}");
    assert!(report.held > 0, "nothing is ever held: {scope}");
    Ok(())
}

/// Defines two tests for a kind: its short searches, and the ones that every change must pass.
macro_rules! searches {
    ($($kind:ident: $short:ident, $long:ident;)*) => {
        $(
            #[test]
            fn $short() -> Result<()> {
                let kind = KindModel::$kind;
                for bounds in Bounds::short(&kind) {
                    holds_everywhere(&Scope::Single(kind, bounds))?;
                }
                Ok(())
            }

            #[test]
            #[ignore = "long: `cargo xtask prove` runs it"]
            fn $long() -> Result<()> {
                let kind = KindModel::$kind;
                for bounds in third::of(Bounds::quick(&kind)) {
                    holds_everywhere(&Scope::Single(kind, bounds))?;
                }
                Ok(())
            }
        )*
    };
}

searches! {
    MUTEX: every_rule_of_a_mutex_holds_in_every_state_nearby,
        every_rule_of_a_mutex_holds_in_every_state;
    COHORT: every_rule_of_a_cohort_holds_in_every_state_nearby,
        every_rule_of_a_cohort_holds_in_every_state;
    REENTRANT: every_rule_of_a_reentrant_lock_holds_in_every_state_nearby,
        every_rule_of_a_reentrant_lock_holds_in_every_state;
    FAIR: every_rule_of_a_fair_lock_holds_in_every_state_nearby,
        every_rule_of_a_fair_lock_holds_in_every_state;
    RWLOCK: every_rule_of_a_read_write_lock_holds_in_every_state_nearby,
        every_rule_of_a_read_write_lock_holds_in_every_state;
    SEMAPHORE: every_rule_of_a_semaphore_holds_in_every_state_nearby,
        every_rule_of_a_semaphore_holds_in_every_state;
    SEMAPHORE_OF_TWO_LIMITS: every_rule_of_a_semaphore_holds_nearby_where_clients_say_two_limits,
        every_rule_of_a_semaphore_holds_where_clients_say_two_limits;
    ONCE: every_rule_of_work_that_is_done_once_holds_in_every_state_nearby,
        every_rule_of_work_that_is_done_once_holds_in_every_state;
    ELECTION: every_rule_of_an_election_holds_in_every_state_nearby,
        every_rule_of_an_election_holds_in_every_state;
}

#[test]
fn every_rule_of_a_latch_holds_in_every_state() -> Result<()> {
    for scope in Scope::of("latch", false) {
        holds_everywhere(&scope)?;
    }
    Ok(())
}

/// The rule that a search for this mistake finds broken.
pub(crate) fn caught_by(searched: &Searched) -> Result<Option<Rule>> {
    let (scope, report) = searched.hunt()?;
    println!("{}: {scope}\n{report}\n", searched.mistake.name());
    Ok(report.violation.map(|trace| trace.violation.rule))
}

/// One mistake per scope, because all of them take minutes.
#[test]
fn a_mistake_in_a_script_is_caught() -> Result<()> {
    let all = searched::all();
    for kind in ["mutex", "semaphore", "once", "latch", "election", "multi"] {
        let first = all.iter().find(|it| it.kind == kind).context(kind)?;
        assert!(caught_by(first)?.is_some(), "not caught: {first:?}");
    }
    Ok(())
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_mistake_is_caught_and_every_rule_catches_one() {
    let (survivors, rules) = (Mutex::new(Vec::new()), Mutex::new(BTreeSet::new()));
    let hunt = |mistakes: &[Searched]| {
        for searched in mistakes {
            match caught_by(searched).unwrap() {
                Some(rule) => drop(rules.lock().unwrap().insert(rule)),
                None => survivors.lock().unwrap().push(searched.mistake.name()),
            }
        }
    };
    let mistakes = searched::all();
    let (one, other) = mistakes.split_at(mistakes.len() / 2);
    thread::scope(|scope| {
        scope.spawn(|| hunt(one));
        hunt(other);
    });
    println!("proved {} hunts of mutants", mistakes.len());
    let survivors = survivors.into_inner().unwrap();
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
    // No known mistake makes a claim valid again or an answer unreadable.
    let rules = rules.into_inner().unwrap();
    let uncaught: Vec<_> = Rule::ALL
        .iter()
        .filter(|rule| !rules.contains(rule))
        .collect();
    assert_eq!(uncaught, [&Rule::ValidAgain, &Rule::Unreadable]);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_mistake_in_the_engine_breaks_the_rule_that_it_is_about() -> Result<()> {
    let rules = |mistake: &Searched| match mistake.mistake {
        Mistake::Script(_) => None,
        Mistake::Engine(mutant) => Some((mutant, caught_by(mistake))),
    };
    for (mutant, rule) in searched::all().iter().filter_map(rules) {
        let expected = match mutant {
            Mutant::ValidWhileConverting => Rule::TokenPassed,
            Mutant::RenewWhileConverting => Rule::LostToItself,
            // A write-back that counts although the claim is gone causes no overlap.
            Mutant::GoneWriteBackCounts | Mutant::UnequalTokensAgree => Rule::NoMajority,
            Mutant::HandOverInCooldown => Rule::GrantedInCooldown,
            Mutant::QuorumOfAnswers | Mutant::ReuseClaim => continue,
            _ => Rule::ValidTooLong,
        };
        assert_eq!(rule?, Some(expected), "{mutant:?}");
    }
    Ok(())
}

#[test]
fn a_mutant_whose_text_is_gone_from_the_script_is_an_error() {
    let script = lua::ALL[0].script;
    let error = Patch::new(script, "no such text", "").unwrap_err();
    assert!(error.to_string().contains("stands 0 times"), "{error}");
    assert!(Patch::new(script, "redis.call(", "").is_err());
}

#[test]
fn a_search_that_meets_its_bound_of_states_says_that_it_is_unfinished() {
    let scope = Scope::Single(KindModel::MUTEX, Bounds::small());
    let report = scope.explore(None, 100, &mut |_| {}).unwrap();
    assert!(!report.finished);
    assert!(report.to_string().ends_with("more states than the bound"));
}
