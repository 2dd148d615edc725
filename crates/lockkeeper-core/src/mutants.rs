//! Defects on purpose, to show that the tests would find them. For development only: the feature `mutants`, which no
//! published crate enables, compiles them in, and even then each is off unless a test turns it on for its own thread.
//!
//! A mutant is one condition at one place in the engine, `mutant!(Name)`. Without the feature that is the constant
//! `false`.

use std::cell::Cell;

/// Defines all defects, each by what it does and its name.
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
    /// The holder believes as long as on the server: the margin is ignored.
    NoMargin,
    /// Validity ends when the leave is answered instead of before it is sent.
    BelieveWhileLeaving,
    /// A release that overtakes an acquire leaves no tombstone.
    LeaveUnmarked,
    /// An acquire without answer counts as one that was not granted.
    UnknownIsNo,
    /// A claim may have several unanswered requests.
    RequestsAbreast,
    /// What a server without the script refused is sent again by its text, although a leave has gone out.
    ResendAfterLeave,
    /// A claim that is spent is claimed again under the same id.
    ReuseClaim,
    /// After a gap in the messages nobody looks.
    DeafToReconnect,
    /// A claim that is given up before it was granted is not left for.
    DropWithoutLeave,
    /// The deadline of a grant by message counts from the last request sent, not from the one that the message names.
    GrantFromLastSend,
    /// The deadline of a grant by message counts from the arrival of the message.
    GrantFromMessage,
    /// A message that cannot be believed is not followed by a heartbeat behind the one that is on its way.
    HintBehindHeartbeatLost,
    /// Nobody asks what happened between the answer that says to wait and the subscription.
    NoHeartbeatAfterSubscribing,
    /// A waiter does not say that it is alive.
    WaiterNeverHeartbeats,
    /// A message of a grant changes nothing.
    DeafToGrants,
    /// A holder whose place another mode takes believes until the answer, although others come in with it.
    BelieveWhileConverting,
    /// A token counts as written back where the claim is gone.
    GoneWriteBackCounts,
    /// A majority of the servers that answered is enough.
    QuorumOfAnswers,
    /// Unequal tokens of a majority are taken for equal ones, and nothing is written back.
    UnequalTokensAgree,
    /// The old claim of a conversion without answer is renewed.
    RenewWhileConverting,
    /// The release of several locks, or servers, stops at the first that fails, and forgets the rest.
    ReleaseStopsAtFirstError,
    /// What is held together is believed in when one of it is lost.
    LossOfOneKeepsTheRest,
    /// The old claim of a refused conversion is believed in although another request for it was given up.
    BelieveBesideStrayConversion,
    /// What a leader is known by is sent once, whether or not that is answered.
    ProclaimedOnce,
    /// The index of claims follows a claim when that is not locked any more.
    IndexBehindClaim,
    /// A message of a grant that overtakes the answer to wait is forgotten.
    EarlyGrantLost,
    /// What is said of a claim before its holder knows of the grant is forgotten.
    EarlyNoticeLost,
    /// A grant is given up although the acquisition has taken it.
    TakenIsAbandoned,
}

impl Mutant {
    /// Those of locks over several servers, beside [`ReuseClaim`](Self::ReuseClaim).
    pub const QUORUM: [Self; 4] = [
        Self::GoneWriteBackCounts,
        Self::QuorumOfAnswers,
        Self::UnequalTokensAgree,
        Self::ReleaseStopsAtFirstError,
    ];

    /// Those of conversions, which the exhaustive search alone must find.
    pub const OF_CONVERSIONS: [Self; 2] = [
        Self::RenewWhileConverting,
        Self::BelieveBesideStrayConversion,
    ];

    /// Those of what leaders proclaim.
    pub const OF_ELECTIONS: [Self; 1] = [Self::ProclaimedOnce];

    /// Those that only threads show.
    pub const OF_THREADS: [Self; 4] = [
        Self::IndexBehindClaim,
        Self::EarlyGrantLost,
        Self::EarlyNoticeLost,
        Self::TakenIsAbandoned,
    ];

    /// Every other one of locks on one server.
    pub const ALL: [Self; 19] = [
        Self::DeadlineFromAnswer,
        Self::NoMargin,
        Self::BelieveWhileLeaving,
        Self::LeaveUnmarked,
        Self::UnknownIsNo,
        Self::RequestsAbreast,
        Self::ResendAfterLeave,
        Self::ReuseClaim,
        Self::DeafToReconnect,
        Self::DropWithoutLeave,
        Self::GrantFromLastSend,
        Self::GrantFromMessage,
        Self::HintBehindHeartbeatLost,
        Self::NoHeartbeatAfterSubscribing,
        Self::WaiterNeverHeartbeats,
        Self::DeafToGrants,
        Self::BelieveWhileConverting,
        Self::ReleaseStopsAtFirstError,
        Self::LossOfOneKeepsTheRest,
    ];
}

thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Runs `work` with this defect in everything that the present thread does.
pub fn with<T>(mutant: Mutant, work: impl FnOnce() -> T) -> T {
    /// Puts back what was before, also after a panic.
    struct Restore(Option<Mutant>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTIVE.set(self.0);
        }
    }
    let _restore = Restore(ACTIVE.replace(Some(mutant)));
    work()
}

/// Whether any is switched on in the present thread.
pub fn is_any_active() -> bool {
    ACTIVE.get().is_some()
}

/// Whether this defect is on for the present thread.
pub fn is_active(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}
