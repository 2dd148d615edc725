//! All mutants, each with everything that must catch it. The mutants are described where they are defined: those of the
//! scripts in [`lua`], those of the engine beside it.

use std::fmt;

use anyhow::Result;
use lockkeeper_core::mutants::Mutant as Defect;

use super::histories::{self, Broken};
use super::searched::{self, Searched};
use super::{Mistake, lua};
use crate::simulation::Workload;

/// One mistake and one of the ways in which it must be caught.
#[derive(Debug)]
pub struct Hunt {
    /// The mistake.
    pub mistake: Mistake,
    /// The kind of lock that it concerns; `None` if it concerns all of them.
    pub kind: Option<&'static str>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Search(Searched),
    Histories,
    HistoriesOf(Workload),
}

/// The result of a hunt.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Caught {
    /// What caught it and which rule it breaks; `None` if it survives.
    pub by: Option<String>,
    /// What the same run breaks without the mistake, which must be nothing.
    pub without: Option<String>,
}

impl Caught {
    /// Whether it was caught and the run without it is fine.
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
    /// All hunts; those of one mistake are adjacent.
    pub fn all() -> Vec<Self> {
        let hunt = |mistake, kind, way| Self { mistake, kind, way };
        let searches = searched::all().into_iter();
        let searches = searches.map(|it| hunt(it.mistake, Some(it.kind), Way::Search(it)));
        let scripts = [
            (Workload::Fair, lua::FAIR),
            (Workload::RwLock, lua::RWLOCK),
            (Workload::Semaphore, lua::SEMAPHORE),
            (Workload::Election, lua::ELECTION),
            (Workload::Once, lua::ONCE),
            (Workload::Latch, lua::LATCH),
        ];
        let scripts = scripts.into_iter().flat_map(|(of, mutants)| {
            let way = move || Way::HistoriesOf(of);
            let script = move |it| hunt(Mistake::Script(it), Some(of.name()), way());
            mutants.iter().map(script)
        });
        let engine = |of: Workload| {
            move |it| hunt(Mistake::Engine(it), Some(of.name()), Way::HistoriesOf(of))
        };
        let defects = Defect::ALL.into_iter();
        let defects = defects.map(|it| hunt(Mistake::Engine(it), None, Way::Histories));
        let majorities = Defect::QUORUM.into_iter().chain([Defect::ReuseClaim]);
        let majorities = majorities.map(engine(Workload::Redlock));
        let elections = Defect::OF_ELECTIONS
            .into_iter()
            .map(engine(Workload::Election));
        let all = searches.chain(scripts).chain(defects).chain(majorities);
        let all = all.chain(elections);
        let mut all: Vec<_> = all.collect();
        let mut order: Vec<String> = Vec::new();
        for hunt in &all {
            if !order.contains(&hunt.mistake.name()) {
                order.push(hunt.mistake.name());
            }
        }
        all.sort_by_key(|hunt| order.iter().position(|name| *name == hunt.mistake.name()));
        all
    }

    /// Runs with the mistake until a rule is broken, and the same without it.
    ///
    /// # Errors
    ///
    /// If a patch no longer applies, or the system cannot provide a runtime.
    pub fn run(&self) -> Result<Caught> {
        let broken = match (&self.way, self.mistake) {
            (Way::Search(searched), _) => return in_search(searched),
            (Way::HistoriesOf(workload), Mistake::Engine(defect)) => {
                histories::find_in(*workload, defect)?
            }
            (Way::HistoriesOf(workload), Mistake::Script(mutant)) => {
                histories::find_patched(*workload, mutant)?
            }
            (Way::Histories, Mistake::Engine(defect)) => histories::find(defect)?,
            (Way::Histories, Mistake::Script(mutant)) => {
                anyhow::bail!("of which kind is {}?", mutant.name)
            }
        };
        Ok(in_histories(broken))
    }
}

/// Searches with the mistake, and then without it for as many states, the nearest first.
fn in_search(searched: &Searched) -> Result<Caught> {
    let (scope, report) = searched.hunt()?;
    let sound = scope.explore(None, report.states, &mut |_| {})?;
    let by = report.violation.map(|trace| {
        let steps = trace.steps.len();
        format!("search, {steps} steps: {}", trace.violation)
    });
    let without = sound.violation.map(|trace| trace.violation.to_string());
    Ok(Caught { by, without })
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
