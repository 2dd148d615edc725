//! Mistakes that a search must find, and the scopes in which they show.

use anyhow::{Context as _, Result};
use lockkeeper_core::mutants::{Mutant, with};

use super::{Mistake, lua};
use crate::kinds::KindModel;
use crate::search::{Bounds, MOST_STATES, Report, Rounds, Scope};

/// Mistakes in grants by message.
const OF_QUEUES: [Mutant; 2] = [Mutant::GrantFromLastSend, Mutant::GrantFromMessage];

/// Mistakes in conversions.
const OF_CONVERSIONS: [Mutant; 3] = [
    Mutant::ValidWhileConverting,
    Mutant::RenewWhileConverting,
    Mutant::ValidBesideConversionInDoubt,
];

/// Mistakes in hand-overs within a client.
const OF_HANDOVERS: [Mutant; 1] = [Mutant::HandOverInCooldown];

/// Mistakes in locks by a majority.
const OF_ROUNDS: [(Mutant, Rounds); 4] = [
    // One server is out of reach for each of two contenders, so a majority of the answers is no majority.
    (
        Mutant::QuorumOfAnswers,
        Rounds {
            faults: 2,
            ticks: 0,
            ..Rounds::SMALL
        },
    ),
    (Mutant::UnequalTokensAgree, Rounds::SMALL),
    // A server loses the claim between its grant and the write-back.
    (Mutant::GoneWriteBackCounts, Rounds::AN_ENDING),
    // A release of the first round is executed in the second.
    (Mutant::ReuseClaim, Rounds::A_SECOND_ROUND),
];

/// A mistake, and the scopes to search for it, one after the other until it shows.
#[derive(Debug)]
#[non_exhaustive]
pub struct Searched {
    /// The mistake.
    pub mistake: Mistake,
    /// The kind of lock that is searched.
    pub kind: &'static str,
    /// Where it must show.
    pub scopes: Vec<Scope>,
}

/// All of them, those of scripts first.
pub fn all() -> Vec<Searched> {
    let scripts = lua::every().map(|mutant| Searched {
        mistake: Mistake::Script(mutant),
        kind: mutant.kind(),
        scopes: mutant.scopes(),
    });
    let engine = |mutant, kind: KindModel, scope| Searched {
        mistake: Mistake::Engine(mutant),
        kind: kind.name,
        scopes: vec![scope],
    };
    let queues = |mutant| {
        let (kind, bounds) = (KindModel::FAIR, Bounds::new(2, &[2], 4, 1, 1));
        engine(mutant, kind, Scope::Single(kind, bounds))
    };
    let conversions = |mutant| {
        let (kind, bounds) = (KindModel::RWLOCK, Bounds::conversions());
        engine(mutant, kind, Scope::Single(kind, bounds))
    };
    let handovers = |mutant| {
        let bounds = Bounds::conversions().cooling_down();
        let kind = KindModel::COHORT;
        engine(mutant, kind, Scope::Single(kind, bounds))
    };
    let rounds = |(mutant, rounds)| engine(mutant, KindModel::REDLOCK, Scope::Rounds(rounds));
    scripts
        .chain(OF_QUEUES.into_iter().map(queues))
        .chain(OF_CONVERSIONS.into_iter().map(conversions))
        .chain(OF_HANDOVERS.into_iter().map(handovers))
        .chain(OF_ROUNDS.into_iter().map(rounds))
        .filter(|searched| !searched.scopes.is_empty())
        .collect()
}

impl Searched {
    /// Returns the first scope in which the mistake shows, and the report; the last scope if it survives.
    ///
    /// # Errors
    ///
    /// As for [`Scope::explore`], and if the patch of a script no longer applies.
    pub fn hunt(&self) -> Result<(&Scope, Report)> {
        let mut hunted = None;
        for scope in &self.scopes {
            let report = match self.mistake {
                Mistake::Script(it) => {
                    scope.explore(Some(&it.patch()?), MOST_STATES, &mut |_| {})?
                }
                Mistake::Engine(it) => with(it, || scope.search())?,
            };
            let shows = report.violation.is_some();
            hunted = Some((scope, report));
            if shows {
                break;
            }
        }
        hunted.context("nothing to search")
    }
}
