//! That every mutant is hunted.

use lockkeeper_testkit::mutants::engine::Mutant as Defect;
use lockkeeper_testkit::mutants::hunt::Hunt;
use lockkeeper_testkit::mutants::lua;

#[test]
fn every_mutant_of_a_script_applies() {
    let failed = lua::every().filter_map(|mutant| mutant.patch().err());
    let failed: Vec<String> = failed.map(|error| format!("{error:#}")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn no_mutant_is_forgotten_and_there_are_enough() {
    let hunted: Vec<String> = Hunt::all()
        .into_iter()
        .map(|hunt| hunt.mistake.name())
        .collect();
    // Those are found by trying thread interleavings, see tests/threads.
    let elsewhere =
        |defect: &Defect| Defect::OF_THREADS.contains(defect) || Defect::HARMLESS.contains(defect);
    for defect in Defect::EVERY.iter().filter(|it| !elsewhere(it)) {
        assert!(hunted.contains(&format!("{defect:?}")), "{defect:?}");
    }
    for mutant in lua::every() {
        assert!(hunted.iter().any(|name| name == mutant.name), "{mutant:?}");
    }
    let mut names = hunted;
    names.dedup();
    assert!(names.len() >= 25, "{} mutants", names.len());
}
