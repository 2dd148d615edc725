//! Every state of a name of Redisson's within small bounds, and mistakes in its scripts, which the same search must find.

use anyhow::{Result, ensure};
use lockkeeper_lua::{Script, redisson};
use lockkeeper_testkit::kinds::KindModel;
use lockkeeper_testkit::mutants::Patch;
use lockkeeper_testkit::search::{Bounds, Scope};
use lockkeeper_testkit::third;

const KIND: KindModel = KindModel::REDISSON;

/// More states than the short searches have.
const MOST_STATES: usize = 5_000_000;

/// A search of a kind that finds nothing wrong.
pub(crate) fn holds_everywhere(kind: KindModel, bounds: Bounds) -> Result<()> {
    let scope = Scope::Single(kind, bounds);
    let report = scope.search()?;
    println!("{scope}\n{report}\nproved {} states", report.states);
    ensure!(report.is_good(), "{scope}\n{report}");
    ensure!(report.held > 0, "nothing is ever held: {scope}");
    Ok(())
}

#[test]
fn every_rule_holds_in_every_state_nearby() -> Result<()> {
    Bounds::short(&KIND)
        .into_iter()
        .try_for_each(|bounds| holds_everywhere(KIND, bounds))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_rule_holds_in_every_state() -> Result<()> {
    third::of(Bounds::quick(&KIND))
        .into_iter()
        .try_for_each(|bounds| holds_everywhere(KIND, bounds))
}

/// In one of these a repeat of a grant comes when its lease is over.
pub(crate) fn bounds_of_mistakes(kind: KindModel) -> Vec<Bounds> {
    let late_repeat = Bounds::new(2, &[1], 2, 2, 0);
    [Bounds::short(&kind), vec![late_repeat]].concat()
}

/// One mistake: in which script, what stands there, and what stands there instead.
pub(crate) type Mistake = (&'static str, &'static Script, &'static str, &'static str);

/// Defines mistakes: each is a sentence, a script, the original text and the text in its place.
macro_rules! mistakes {
    ($($what:literal: $script:path; $text:literal => $replacement:literal;)*) => {
        &[$(($what, &$script, $text, $replacement)),*]
    };
}
pub(crate) use mistakes;

const MISTAKES: &[Mistake] = mistakes! {
    "a repeat of a grant creates": redisson::ACQUIRE;
        " or ARGV[5] ~= '0' and own ~= ARGV[5]" => "";
    "a repeated acquire counts again": redisson::ACQUIRE;
        "if not known.own then\n    if not token and" => "if true then\n    if not token and";
    "an acquire passes the tombstone": redisson::ACQUIRE;
        "redis.call('EXISTS', KEYS[3]) == 1 or " => "";
    "a claim that is not counted takes one of its owner": redisson::RELEASE;
        "if not known.own then" => "if not known.count then";
    "a claim that is not counted is renewed": redisson::RENEW;
        "if not known.own then" => "if not known.count then";
};

#[test]
fn a_mistake_in_a_script_is_found() -> Result<()> {
    every_mistake_is_found(KIND, &bounds_of_mistakes(KIND), MISTAKES)
}

/// The search within these bounds finds each of the mistakes.
pub(crate) fn every_mistake_is_found(
    kind: KindModel,
    bounds: &[Bounds],
    mistakes: &[Mistake],
) -> Result<()> {
    let mut survivors = Vec::new();
    for (mistake, script, text, replacement) in mistakes {
        let patch = Patch::new(script, text, replacement)?;
        let mut rule = None;
        for bounds in bounds.iter().cloned() {
            if rule.is_none() {
                let scope = Scope::Single(kind, bounds);
                let report = scope.explore(Some(&patch), MOST_STATES, &mut |_| {})?;
                rule = report.violation.map(|trace| trace.violation.rule);
            }
        }
        println!("{mistake}: {rule:?}");
        if rule.is_none() {
            survivors.push(*mistake);
        }
    }
    ensure!(survivors.is_empty(), "not found: {survivors:?}");
    Ok(())
}
