//! Every state of every kind within small bounds; and mutants of the scripts, which the same searches must catch.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context as _, Result};
use lockkeeper_testkit::mutants::{claim, lua};
use lockkeeper_testkit::search::{Bounds, Model, Violation, search};

fn holds_everywhere(model: &Model, searches: Vec<Bounds>) -> Result<()> {
    for bounds in searches {
        let report = search(model, &bounds, None, |_| {})?;
        println!("{report}\nproved {} states", report.states);
        assert!(report.violation.is_none(), "{report}");
        assert!(report.finished, "{report}");
    }
    Ok(())
}

/// A test of the short searches of a kind, and one of those that every change must pass.
macro_rules! searches {
    ($($kind:ident: $short:ident, $long:ident;)*) => {
        $(
            #[test]
            fn $short() -> Result<()> {
                let model = Model::$kind()?;
                holds_everywhere(&model, model.short())
            }

            #[test]
            #[ignore = "long: `cargo xtask prove` runs it"]
            fn $long() -> Result<()> {
                let model = Model::$kind()?;
                holds_everywhere(&model, model.quick())
            }
        )*
    };
}

searches! {
    mutex: every_property_of_a_mutex_holds_in_every_state_nearby,
        every_property_of_a_mutex_holds_in_every_state;
    reentrant: every_property_of_a_reentrant_lock_holds_in_every_state_nearby,
        every_property_of_a_reentrant_lock_holds_in_every_state;
    fair: every_property_of_a_fair_lock_holds_in_every_state_nearby,
        every_property_of_a_fair_lock_holds_in_every_state;
    rwlock: every_property_of_a_read_write_lock_holds_in_every_state_nearby,
        every_property_of_a_read_write_lock_holds_in_every_state;
}

/// One of them, for all together take minutes.
#[test]
fn a_mutant_of_a_script_is_caught() -> Result<()> {
    let mutant = lua::searched().next().context("no mutant")?;
    let found = mutant.hunt()?.violation;
    assert!(found.is_some(), "not caught: {}", mutant.name);
    Ok(())
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_mutant_of_a_script_is_caught_and_every_property_catches_one() {
    let (survivors, caught_by) = (Mutex::new(Vec::new()), Mutex::new(BTreeSet::new()));
    let hunt = |mutants: &[&lua::Mutant]| {
        for mutant in mutants {
            let Some(found) = mutant.hunt().unwrap().violation else {
                survivors.lock().unwrap().push(mutant.name);
                continue;
            };
            println!("{}:\n{found}\n", mutant.name);
            caught_by.lock().unwrap().insert(property(found.violation));
        }
    };
    let mutants: Vec<_> = lua::searched().collect();
    let (one, other) = mutants.split_at(mutants.len() / 2);
    thread::scope(|scope| {
        scope.spawn(|| hunt(one));
        hunt(other);
    });
    println!("proved {} hunts of mutants", mutants.len());
    let survivors = survivors.into_inner().unwrap();
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
    // No script can make a client believe again, or lose a place to itself: such mistakes are the engine's.
    let properties = [
        "larger token",
        "token passed",
        "shared token",
        "overlap",
        "only acquire creates",
        "gone",
        "woken",
        "served",
        "believed too long",
        "place lost",
        "passed over",
        "turn",
        "told",
        "granted too long",
        "remains",
    ];
    assert_eq!(caught_by.into_inner().unwrap(), BTreeSet::from(properties));
}

fn property(violation: Violation) -> &'static str {
    match violation {
        Violation::Overlap(..) => "overlap",
        Violation::TokenNotLarger(..) => "larger token",
        Violation::TokenPassed(..) => "token passed",
        Violation::TokenNotShared(..) => "shared token",
        Violation::Revived(..) => "only acquire creates",
        Violation::NotGone(..) => "gone",
        Violation::NotWoken(..) => "woken",
        Violation::NotServed(..) => "served",
        Violation::BelievesTooLong(..) => "believed too long",
        Violation::PlaceLost(..) => "place lost",
        Violation::PassedOver(..) => "passed over",
        Violation::NoTurn(..) => "turn",
        Violation::NotTold(..) => "told",
        Violation::GrantedTooLong(..) => "granted too long",
        Violation::Remains => "remains",
        Violation::LostToItself(..) => "lost to itself",
        _ => "another",
    }
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_mistake_in_how_a_claim_believes_in_messages_is_caught() {
    println!("proved {} hunts of mutants", claim::OF_QUEUES.len());
    for &mutant in claim::OF_QUEUES {
        let found = claim::hunt(mutant).unwrap().violation;
        let found = found.unwrap_or_else(|| panic!("{mutant:?} is not caught"));
        assert_eq!(property(found.violation), "believed too long", "{found}");
    }
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_mistake_in_how_a_claim_is_converted_is_caught() {
    println!("proved {} hunts of mutants", claim::OF_CONVERSIONS.len());
    let caught: Vec<_> = claim::OF_CONVERSIONS
        .iter()
        .map(|&mutant| {
            let found = claim::hunt(mutant).unwrap().violation;
            let found = found.unwrap_or_else(|| panic!("{mutant:?} is not caught"));
            property(found.violation)
        })
        .collect();
    assert_eq!(
        caught,
        ["token passed", "lost to itself", "believed too long"]
    );
}

#[test]
fn a_mutant_whose_text_is_gone_from_the_script_is_an_error() {
    let script = lua::ALL[0].script;
    let error = lua::Patch::new(script, "no such text", "").unwrap_err();
    assert!(error.to_string().contains("stands 0 times"), "{error}");
    assert!(lua::Patch::new(script, "redis.call(", "").is_err());
}

#[test]
fn a_search_that_meets_its_bound_of_states_says_that_it_is_unfinished() {
    let bounds = Bounds {
        states: 100,
        ..Bounds::small()
    };
    let report = search(&Model::mutex().unwrap(), &bounds, None, |_| {}).unwrap();
    assert!(!report.finished);
    assert!(report.to_string().ends_with("more states than the bound"));
}
