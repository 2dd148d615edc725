//! All mutants, each with everything that must catch it. What they are is written where they are: the lists of the scripts' in
//! [`lua`], those of the engine's beside it.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;
use lockkeeper_core::mutants::Mutant as Defect;
use parking_lot::Mutex;

use super::histories::{self, Broken};
use super::{claim, lua, rounds};
use crate::search::{Bounds, Model, Report, search};
use crate::sets;
use crate::simulation::Workload;

/// One mutant and one of the ways in which it must be caught.
#[derive(Debug, Clone)]
pub struct Hunt {
    /// The mutant's name.
    pub mutant: String,
    /// What it does.
    pub what: String,
    /// The kind of lock that it is about; `None` if it is about all of them.
    pub kind: Option<&'static str>,
    way: Way,
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Search(&'static lua::Mutant),
    SearchOfClaims(Defect),
    SearchOfSets(&'static lua::Mutant),
    SearchOfRounds(&'static rounds::Mistake),
    Histories(&'static lua::Mutant),
    HistoriesOfAll(Defect),
    HistoriesOfMajorities(Defect),
}

/// What came of a hunt.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Caught {
    /// By what it was caught, and which rule it breaks; `None` if it survives.
    pub by: Option<String>,
    /// What the same run breaks without the mutant, which must be nothing.
    pub without: Option<String>,
}

impl Caught {
    /// Whether it was caught, and nothing is wrong without it.
    pub const fn is_good(&self) -> bool {
        self.by.is_some() && self.without.is_none()
    }
}

impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            Some(by) => write!(f, "caught by {by}")?,
            None => write!(f, "SURVIVES")?,
        }
        match &self.without {
            Some(without) => write!(f, "; WITHOUT IT TOO: {without}"),
            None => Ok(()),
        }
    }
}

impl Hunt {
    /// Every one, those of one mutant behind one another.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        let searched = lua::searched().map(Way::Search);
        let sets = lua::MULTI.iter().map(Way::SearchOfSets);
        let histories = lua::FAIR.iter().chain(lua::RWLOCK).map(Way::Histories);
        let claims = claim::OF_QUEUES
            .iter()
            .chain(claim::OF_CONVERSIONS)
            .copied();
        let majorities = Defect::QUORUM.into_iter().chain([Defect::ReuseClaim]);
        let ways = searched.chain(sets).chain(histories);
        let ways = ways.chain(Defect::ALL.into_iter().map(Way::HistoriesOfAll));
        let ways = ways.chain(claims.map(Way::SearchOfClaims));
        let ways = ways.chain(majorities.map(Way::HistoriesOfMajorities));
        let ways = ways.chain(rounds::MISTAKES.iter().map(Way::SearchOfRounds));
        all.extend(ways.map(Self::new));
        let mut order: Vec<String> = Vec::new();
        for hunt in &all {
            if !order.contains(&hunt.mutant) {
                order.push(hunt.mutant.clone());
            }
        }
        all.sort_by_key(|hunt| order.iter().position(|name| *name == hunt.mutant));
        all
    }

    fn new(way: Way) -> Self {
        let (mutant, what, kind) = match way {
            Way::Search(mutant) | Way::Histories(mutant) | Way::SearchOfSets(mutant) => {
                let kind = match way {
                    Way::SearchOfSets(_) => "multi",
                    _ => mutant.kind(),
                };
                let what = format!("in {}: {}", mutant.script.name, mutant.what());
                (mutant.name.to_owned(), what, Some(kind))
            }
            Way::SearchOfClaims(defect) => {
                let kind = if claim::OF_CONVERSIONS.contains(&defect) {
                    "rwlock"
                } else {
                    "fair"
                };
                (format!("{defect:?}"), defect.what().to_owned(), Some(kind))
            }
            Way::HistoriesOfAll(defect) => (format!("{defect:?}"), defect.what().to_owned(), None),
            Way::HistoriesOfMajorities(defect) => (
                format!("{defect:?}"),
                defect.what().to_owned(),
                Some("redlock"),
            ),
            Way::SearchOfRounds(mistake) => (
                format!("{:?}", mistake.mutant),
                mistake.mutant.what().to_owned(),
                Some("redlock"),
            ),
        };
        Self {
            mutant,
            what,
            kind,
            way,
        }
    }
}

/// Goes hunting, and remembers what the searches of several names and of rounds found without a mutant.
#[derive(Debug, Default)]
pub struct Hunter {
    sound: Mutex<BTreeMap<String, Option<String>>>,
}

impl Hunter {
    /// Runs with the mutant until a rule is broken, and the same without it.
    ///
    /// # Errors
    ///
    /// If a patch no longer applies, or there is no runtime to be had from the system.
    pub fn hunt(&self, hunt: &Hunt) -> Result<Caught> {
        match hunt.way {
            Way::Search(mutant) => in_search(mutant.hunt()?, &mutant.model()?),
            Way::SearchOfClaims(defect) => {
                in_search(claim::hunt(defect)?, &claim::place(defect)?.0)
            }
            Way::SearchOfSets(mutant) => {
                let found = lua::hunt_several(mutant)?.violation;
                let by = found.map(|(violation, steps)| in_steps("sets", violation, &steps));
                let without = self.remembered("sets", || {
                    for bounds in [sets::Bounds::small(), sets::Bounds::small_of_mutexes()] {
                        if let Some(found) = sets::search(bounds, None)?.violation {
                            return Ok(Some(format!("{found:?}")));
                        }
                    }
                    Ok(None)
                })?;
                Ok(Caught { by, without })
            }
            Way::SearchOfRounds(mistake) => {
                let found = mistake.hunt()?.violation;
                let by = found.map(|(violation, steps)| in_steps("rounds", violation, &steps));
                let without = self.remembered(&format!("{:?}", mistake.bounds), || {
                    let found = crate::rounds::search(mistake.bounds)?.violation;
                    Ok(found.map(|found| format!("{found:?}")))
                })?;
                Ok(Caught { by, without })
            }
            Way::Histories(mutant) if mutant.kind() == "fair" => {
                let broken = histories::find_patched(Workload::Fair, mutant)?;
                Ok(in_histories(broken))
            }
            Way::Histories(mutant) => {
                let broken = histories::find_patched(Workload::RwLock, mutant)?;
                Ok(in_histories(broken))
            }
            Way::HistoriesOfAll(defect) => Ok(in_histories(histories::find(defect)?)),
            Way::HistoriesOfMajorities(defect) => {
                Ok(in_histories(histories::find_in_majority(defect)?))
            }
        }
    }

    /// What was found before by this name, or is found now. Two who ask at once may both search.
    fn remembered(
        &self,
        key: &str,
        find: impl FnOnce() -> Result<Option<String>>,
    ) -> Result<Option<String>> {
        let sound = || self.sound.lock();
        if let Some(known) = sound().get(key).cloned() {
            return Ok(known);
        }
        let found = find()?;
        sound().insert(key.to_owned(), found.clone());
        Ok(found)
    }
}

/// What a search has found, and what it finds without the mistake in as many states, the nearest first.
fn in_search(report: Report, model: &Model) -> Result<Caught> {
    let bounds = Bounds {
        states: report.states,
        ..report.bounds
    };
    let sound = search(model, &bounds, None, |_| {})?.violation;
    let by = report.violation.map(|found| {
        let steps = found.trace.len();
        format!("search, {steps} steps: {}", found.violation)
    });
    Ok(Caught {
        by,
        without: sound.map(|found| found.violation.to_string()),
    })
}

fn in_steps(of: &str, violation: impl fmt::Debug, steps: &[String]) -> String {
    format!("search of {of}, {} steps: {violation:?}", steps.len())
}

fn in_histories(broken: Option<Broken>) -> Caught {
    let Some(broken) = broken else {
        return Caught {
            by: None,
            without: None,
        };
    };
    let Broken {
        workload,
        seed,
        violation,
        without,
    } = broken;
    Caught {
        by: Some(format!(
            "history of {}, seed {seed}: {}",
            workload.name(),
            violation.rule
        )),
        without: without.map(|violation| format!("{}: {}", violation.rule, violation.what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mutant_is_forgotten_and_there_are_enough() {
        let hunted: Vec<String> = Hunt::all().into_iter().map(|hunt| hunt.mutant).collect();
        // Those are hunted by orders of threads, see tests/threads.
        let by_threads = |defect: &&Defect| !Defect::OF_THREADS.contains(defect);
        for defect in Defect::EVERY.iter().filter(by_threads) {
            assert!(hunted.contains(&format!("{defect:?}")), "{defect:?}");
        }
        for mutant in lua::every() {
            assert!(hunted.iter().any(|name| name == mutant.name), "{mutant:?}");
        }
        let mut names = hunted;
        names.dedup();
        assert!(names.len() >= 25, "{} mutants", names.len());
    }
}
