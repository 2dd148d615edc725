//! Every state of every kind within small bounds; and mutants of the scripts, which the same searches must catch.

use std::thread;

use lockkeeper_testkit::mutants::lua;
use lockkeeper_testkit::search::{Bounds, Model, search};

fn holds_everywhere(model: &Model, bounds: &Bounds) {
    let report = search(model, bounds, None, |_| {}).unwrap();
    println!("{report}");
    assert!(report.violation.is_none(), "{report}");
    assert!(report.finished, "{report}");
}

#[test]
fn every_property_of_a_mutex_holds_in_every_state() {
    holds_everywhere(&Model::mutex().unwrap(), &Bounds::small());
}

#[test]
fn every_property_of_a_reentrant_lock_holds_in_every_state() {
    holds_everywhere(&Model::reentrant().unwrap(), &Bounds::small());
}

#[test]
fn every_mutant_of_a_script_is_caught() {
    let (one, other) = lua::ALL.split_at(lua::ALL.len() / 2);
    let hunt = |mutants: &[lua::Mutant]| {
        let mut survivors = Vec::new();
        for mutant in mutants {
            match mutant.hunt().unwrap() {
                Some(found) => println!("{}:\n{found}\n", mutant.name),
                None => survivors.push(mutant.name),
            }
        }
        survivors
    };
    let survivors = thread::scope(|scope| {
        let other = scope.spawn(|| hunt(other));
        [hunt(one), other.join().unwrap()].concat()
    });
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}
