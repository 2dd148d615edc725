//! Every state of locks over several names of one server within small bounds; and mutants of the scripts, which the same search
//! must catch.

use anyhow::Result;
use lockkeeper_testkit::mutants::lua;
use lockkeeper_testkit::sets::{Bounds, Report, search};

fn searched(bounds: Bounds) -> Result<Report> {
    let begun = std::time::Instant::now();
    let report = search(bounds, None)?;
    println!("{bounds:?}\n{report}\n{:?}", begun.elapsed());
    println!("proved {} states", report.states);
    Ok(report)
}

fn holds_everywhere(bounds: Bounds) -> Result<()> {
    let report = searched(bounds)?;
    assert!(report.violation.is_none() && report.finished, "{report}");
    assert!(report.held > 0, "nobody ever holds a set");
    Ok(())
}

#[test]
fn sets_that_overlap_exclude_one_another_in_every_state_nearby() -> Result<()> {
    holds_everywhere(Bounds {
        ticks: 1,
        ..Bounds::small()
    })?;
    holds_everywhere(Bounds {
        ticks: 1,
        ..Bounds::small_of_mutexes()
    })
}

#[test]
fn a_mutant_of_the_scripts_of_several_names_is_caught() -> Result<()> {
    let mutant = &lua::MULTI[0];
    let violation = lua::hunt_several(mutant)?.violation;
    assert!(violation.is_some(), "not caught: {}", mutant.name);
    Ok(())
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn sets_that_overlap_and_a_single_lock_exclude_one_another_in_every_state() -> Result<()> {
    holds_everywhere(Bounds::small())
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn and_where_they_share_a_mutex() -> Result<()> {
    holds_everywhere(Bounds::small_of_mutexes())
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn and_where_two_requests_are_in_trouble() -> Result<()> {
    holds_everywhere(Bounds {
        faults: 2,
        ..Bounds::small()
    })
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn and_where_each_begins_again_with_new_claims() -> Result<()> {
    holds_everywhere(Bounds {
        rounds: 2,
        ticks: 1,
        ..Bounds::small()
    })
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn and_where_one_of_them_dies() -> Result<()> {
    holds_everywhere(Bounds {
        crashes: 1,
        ..Bounds::small()
    })
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn and_where_one_takes_all_names() -> Result<()> {
    holds_everywhere(Bounds {
        sets: [&[0, 1, 2], &[0, 2], &[]],
        ..Bounds::small()
    })
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_mutant_of_the_scripts_of_several_names_is_caught() -> Result<()> {
    let mut survivors = Vec::new();
    for mutant in lua::MULTI {
        match lua::hunt_several(mutant)?.violation {
            Some((violation, steps)) => {
                println!("{}: {violation:?}\n{}\n", mutant.name, steps.join("\n"));
            }
            None => survivors.push(mutant.name),
        }
    }
    println!("proved {} hunts of mutants", lua::MULTI.len());
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
    Ok(())
}
