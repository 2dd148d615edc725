//! A mutant of a script, and the searches that must find it.

use anyhow::{Context as _, Result};
use lockkeeper_lua::Script;

use crate::kinds::KindModel;
use crate::patch::Patch;
use crate::search::{Bounds, Incident, Latches, Rounds, Scope, Sets};

/// A mistake in one script.
#[derive(Debug)]
#[non_exhaustive]
pub struct Mutant {
    /// What the script does wrong: a sentence with underscores for spaces.
    pub name: &'static str,
    /// The script.
    pub script: &'static Script,
    /// The original text, which occurs once.
    pub text: &'static str,
    /// The text in its place.
    pub replacement: &'static str,
    /// Where the mistake shows.
    pub(super) world: Where,
}

/// The bounds in which a mutant shows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Where {
    /// The [small](Bounds::small) ones.
    Small,
    /// A lease that lasts longer than the one after it.
    UnequalLeases,
    /// A server that loses the counter, and one client: other clients' tokens are not promised then.
    CounterLost,
    /// A counter that is lost, or put back by a failover, while the server's clock is right.
    ClockRight(Incident),
    /// A name that is taken from its holders by force.
    Forced,
    /// A server that loses the main key, and clients that come in again, or wait.
    MainKeyLost,
    /// The holders of an inflated name are lost, or its inflation.
    LostBehind(Incident),
    /// A key of holders comes back whom the marker does not count.
    HoldersBack,
    /// Another library's client takes the name.
    TakenByOthers,
    /// Claims are released into a cooldown.
    Cooldown,
    /// Claims are revoked, perhaps two of an owner.
    Revoked,
    /// Claims are revoked, and then convert or hand over.
    RevokedConversions,
    /// Three claims want the same name.
    Queue,
    /// Three claims want the same name or wait for it again, and two may wait.
    FullQueue,
    /// One leads, and one is on standby.
    Election,
    /// Three claims want permits of a name, and the limit is set.
    Limits,
    /// Two claims per client; the second replaces the first.
    Conversions,
    /// Sets that share a re-entrant lock, or a mutex.
    Sets,
    /// A majority of servers.
    Rounds(Rounds),
    /// A latch.
    Latch,
    /// More clients than a search can have: the simulation finds it.
    FourClients,
}

impl Mutant {
    /// The checked patch.
    ///
    /// # Errors
    ///
    /// As for [`Patch::new`].
    pub fn patch(&self) -> Result<Patch> {
        Patch::new(self.script, self.text, self.replacement)
            .with_context(|| format!("the mutant {} no longer applies", self.name))
    }

    /// The kind to search, the first word of the name: kinds share scripts.
    pub fn kind(&self) -> &'static str {
        self.name
            .split_once('_')
            .map_or(self.name, |(kind, _)| kind)
    }

    /// The name as a sentence.
    pub fn what(&self) -> String {
        self.name.replace('_', " ")
    }

    /// The scopes to search, one after the other until it shows.
    pub fn scopes(&self) -> Vec<Scope> {
        let bounds = match self.world {
            Where::FourClients => return Vec::new(),
            Where::Latch => return vec![Scope::Latch(Latches::SMALL)],
            Where::Rounds(rounds) => return vec![Scope::Rounds(rounds)],
            Where::Sets => {
                return [Sets::SMALL, Sets::SMALL_OF_MUTEXES, Sets::SMALL_OF_A_QUEUE]
                    .map(Scope::Sets)
                    .into();
            }
            Where::Small => Bounds::small(),
            Where::Queue => Bounds::new(3, &[2], 4, 1, 1),
            Where::FullQueue => Bounds {
                max_queue: Some(2),
                ..Bounds::new(3, &[2, 2], 3, 0, 0)
            },
            Where::Election => Bounds::new(2, &[2], 3, 0, 0),
            Where::Limits => Bounds::new(3, &[2], 2, 0, 1).with(Incident::LimitSet),
            Where::Conversions => Bounds::conversions(),
            Where::UnequalLeases => Bounds::new(2, &[3, 2], 4, 1, 1),
            // Without faults: a token whose reply is lost is in nobody's floor.
            Where::CounterLost => Bounds {
                clients: 1,
                faults: 0,
                ..Bounds::small().with(Incident::CounterLost)
            },
            Where::ClockRight(incident) => Bounds::new(2, &[2, 2], 3, 0, 1)
                .clock_right()
                .with(incident),
            Where::Forced => Bounds::new(2, &[2, 2], 2, 0, 1).with(Incident::Forced),
            Where::Cooldown => Bounds::new(2, &[2, 2], 3, 0, 0).cooling_down(),
            Where::Revoked => Bounds::new(2, &[2, 2], 2, 0, 1).with(Incident::Revoked),
            Where::RevokedConversions => Bounds {
                endings: 1,
                ..Bounds::conversions().with(Incident::Revoked)
            },
            Where::MainKeyLost => Bounds::new(2, &[2, 2], 2, 0, 1).with(Incident::MainKeyLost),
            Where::HoldersBack => Bounds::new(3, &[2], 3, 0, 1).with(Incident::HoldersBack),
            Where::TakenByOthers => Bounds::new(2, &[2], 3, 0, 2).with(Incident::TakenByOthers),
            Where::LostBehind(incident) => Bounds::new(2, &[2, 2], 3, 0, 1).with(incident),
        };
        let kinds = KindModel::ON_ONE_SERVER.into_iter();
        let kind = kinds.filter(|kind| kind.name == self.kind());
        kind.map(|kind| Scope::Single(kind, bounds.clone()))
            .collect()
    }
}
