//! What happens to a name on the server although no claim asks for it.

/// Something that happens to a name on the server and that no claim asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a search explores each of them")]
pub enum Incident {
    /// The server loses the counter. Requests then carry the largest token that their client has seen. Otherwise they carry
    /// none, which makes no difference while the server remembers a larger one.
    CounterLost,
    /// A failover puts the counter back to an earlier token, and takes longer than a counter counts as just raised.
    CounterBehind,
    /// The server loses the main key. Exclusion is not promised beside the claims that stood under it, so their clients crash
    /// with it.
    MainKeyLost,
    /// The server loses the key of the holders of an inflated name. Their clients crash; whoever waits must still be served.
    HoldersLost,
    /// The only holder of an inflated name is written as a thin value, as after a failover that lost the inflation. The clients
    /// of those who wait crash.
    InflationLost,
    /// The name is taken by force while others wait, and its slot moves to a node that still has a key of holders from an earlier time.
    /// Exclusion is not promised beside those who held it, so their clients crash.
    HoldersBack,
    /// Another library's client takes the name with `SET NX`, and holds it for a tick.
    TakenByOthers,
    /// The limit of a semaphore is set, lower or higher.
    LimitSet,
    /// The name is revoked.
    Revoked,
    /// The name is taken from its holders by force. Exclusion is not promised beside them, so their clients crash.
    Forced,
}

impl Incident {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::CounterLost,
        Self::CounterBehind,
        Self::MainKeyLost,
        Self::HoldersLost,
        Self::InflationLost,
        Self::HoldersBack,
        Self::TakenByOthers,
        Self::LimitSet,
        Self::Revoked,
        Self::Forced,
    ];

    /// Its name for a command line, and what happens, as a clause.
    const fn words(self) -> [&'static str; 2] {
        match self {
            Self::CounterLost => ["counter-lost", "the server loses the counter"],
            Self::CounterBehind => ["counter-behind", "a failover puts the counter back"],
            Self::MainKeyLost => ["main-key-lost", "the server loses the main key"],
            Self::HoldersLost => ["holders-lost", "the server loses the holders"],
            Self::InflationLost => ["inflation-lost", "a failover loses the inflation"],
            Self::HoldersBack => [
                "holders-back",
                "the name is taken by force and moves to where old holders are",
            ],
            Self::TakenByOthers => ["taken-by-others", "another library takes the name"],
            Self::LimitSet => ["limit-set", "the limit is set"],
            Self::Revoked => ["revoked", "the name is revoked"],
            Self::Forced => ["forced", "the name is taken by force"],
        }
    }

    /// Its name for a command line.
    pub const fn name(self) -> &'static str {
        let [name, _] = self.words();
        name
    }

    /// What happens, as a clause.
    pub(super) const fn what(self) -> &'static str {
        let [_, what] = self.words();
        what
    }
}
