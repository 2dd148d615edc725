//! Intentional defects: tests activate them to show that they would find such a defect. For development only. Only the
//! feature `mutants` compiles them in, no published crate enables it, and each defect is inactive unless a test
//! activates it for its own thread.
//!
//! A mutant is one condition at one place in the engine, `mutant!(Name)`. Without the feature, the condition is the
//! constant `false`.

use std::cell::Cell;

/// Defines all defects, each by a description and its name.
macro_rules! defects {
    ($(#[doc = $what:literal] $name:ident,)*) => {
        /// One defect.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(
            clippy::exhaustive_enums,
            reason = "tests go through all of them, and nobody else can"
        )]
        pub enum Mutant {
            $(#[doc = $what] $name,)*
        }

        impl Mutant {
            /// All of them.
            pub const EVERY: &[Self] = &[$(Self::$name),*];

            /// What it does, as a sentence.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$name => $what.trim(),)*
                }
            }
        }
    };
}

defects! {
    /// A deadline counts from the answer instead of the send.
    DeadlineFromAnswer,
    /// The margin is ignored: a lease ends for its holder only when it ends on the server.
    NoMargin,
    /// Validity ends when the release is answered, not before it is sent.
    ValidWhileReleasing,
    /// A release that overtakes an acquire leaves no tombstone.
    ReleaseWithoutTombstone,
    /// An unanswered acquire counts as one that was not granted.
    UnknownIsNo,
    /// A claim may have several unanswered requests.
    RequestsAbreast,
    /// After NOSCRIPT a request is sent again by its text even if a release has been sent.
    ResendAfterRelease,
    /// A claim that has been used up is acquired again with the same id.
    ReuseClaim,
    /// After messages may have been missed nobody polls.
    DeafToReconnect,
    /// A claim that is given up before it was granted is not released.
    DropWithoutRelease,
    /// The deadline of a grant by message counts from the last request, not from the one that the message names.
    GrantFromLastSend,
    /// The deadline of a grant by message counts from the arrival of the message.
    GrantFromMessage,
    /// After a message that cannot be trusted, no heartbeat follows the one that is unanswered.
    HintBehindHeartbeatLost,
    /// Nobody asks what happened between the answer that says to wait and the subscription.
    NoHeartbeatAfterSubscribing,
    /// A waiter sends no heartbeats.
    WaiterNeverHeartbeats,
    /// A message about a grant has no effect.
    DeafToGrants,
    /// A holder that is converted stays valid until the answer, although others are granted the lock with it.
    ValidWhileConverting,
    /// A token counts as written back even where the claim is gone.
    GoneWriteBackCounts,
    /// A majority of the servers that answered is enough.
    QuorumOfAnswers,
    /// Unequal tokens of a majority are treated as equal, and nothing is written back.
    UnequalTokensAgree,
    /// The old claim of an unanswered conversion is renewed.
    RenewWhileConverting,
    /// The release of several locks, or servers, stops at the first failure and forgets the rest.
    ReleaseStopsAtFirstError,
    /// Locks that are held together stay valid when one of them is lost.
    LossOfOneKeepsTheRest,
    /// The old claim of a refused conversion stays valid although another request for it was abandoned.
    ValidBesideConversionInDoubt,
    /// A client hands a name over among its own claims without end, past those of other clients.
    EndlessCohort,
    /// A client hands a name over although the claim that ends keeps it for the rest of its minimum time.
    HandOverInCooldown,
    /// A leader's value is sent once, whether or not that is answered.
    ProclaimedOnce,
    /// The index of claims is updated after the claim has been unlocked.
    IndexBehindClaim,
    /// A message about a grant that arrives before the answer to wait is forgotten.
    EarlyGrantLost,
    /// A notice that arrives before the holder knows of the grant is forgotten.
    EarlyNoticeLost,
    /// A grant is given up although the acquisition has taken it.
    TakenIsAbandoned,
    /// Names are expected to be held by others, or not, without a reason. No defect: every rule must hold all the same.
    NoisyAdvice,
}

impl Mutant {
    /// The defects of locks on several servers, besides [`ReuseClaim`](Self::ReuseClaim).
    pub const QUORUM: [Self; 4] = [
        Self::GoneWriteBackCounts,
        Self::QuorumOfAnswers,
        Self::UnequalTokensAgree,
        Self::ReleaseStopsAtFirstError,
    ];

    /// The defects of conversions, which the exhaustive search alone must find.
    pub const OF_CONVERSIONS: [Self; 3] = [
        Self::RenewWhileConverting,
        Self::ValidBesideConversionInDoubt,
        Self::HandOverInCooldown,
    ];

    /// The defects of what leaders proclaim.
    pub const OF_ELECTIONS: [Self; 1] = [Self::ProclaimedOnce];

    /// The defects that only several threads show.
    pub const OF_THREADS: [Self; 4] = [
        Self::IndexBehindClaim,
        Self::EarlyGrantLost,
        Self::EarlyNoticeLost,
        Self::TakenIsAbandoned,
    ];

    /// Nothing may show these: they change only what is advice.
    pub const HARMLESS: [Self; 1] = [Self::NoisyAdvice];

    /// All other defects of locks on one server.
    pub const ALL: [Self; 20] = [
        Self::DeadlineFromAnswer,
        Self::NoMargin,
        Self::ValidWhileReleasing,
        Self::ReleaseWithoutTombstone,
        Self::UnknownIsNo,
        Self::RequestsAbreast,
        Self::ResendAfterRelease,
        Self::ReuseClaim,
        Self::DeafToReconnect,
        Self::DropWithoutRelease,
        Self::GrantFromLastSend,
        Self::GrantFromMessage,
        Self::HintBehindHeartbeatLost,
        Self::NoHeartbeatAfterSubscribing,
        Self::WaiterNeverHeartbeats,
        Self::DeafToGrants,
        Self::ValidWhileConverting,
        Self::ReleaseStopsAtFirstError,
        Self::LossOfOneKeepsTheRest,
        Self::EndlessCohort,
    ];
}

thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Runs `work` with this defect active for the current thread.
pub fn with<T>(mutant: Mutant, work: impl FnOnce() -> T) -> T {
    /// Restores the previous state, even after a panic.
    struct Restore(Option<Mutant>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTIVE.set(self.0);
        }
    }
    let _restore = Restore(ACTIVE.replace(Some(mutant)));
    work()
}

/// Whether any defect is active in the current thread.
pub fn is_any_active() -> bool {
    ACTIVE.get().is_some()
}

/// Whether this defect is active in the current thread.
pub fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}
