//! The rules that states and runs are checked against. A rule has the same name in every search.

use std::fmt;

/// Defines the rules, each with the sentence that describes a violation.
macro_rules! rules {
    ($(#[doc = $what:literal] $name:ident,)*) => {
        /// A rule, named after its violation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = $what] $name,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The violation, as a sentence.
            pub const fn what(self) -> &'static str {
                match self {
                    $(Self::$name => $what.trim_ascii(),)*
                }
            }
        }
    };
}

rules! {
    /// Claims that exclude one another are valid at the same time.
    Overlap,
    /// A claim is valid for its client after its lease on the server ends.
    ValidTooLong,
    /// A claim is valid again after its validity had ended.
    ValidAgain,
    /// A grant's token is not larger than the token of an earlier grant that excludes it.
    TokenNotLarger,
    /// A re-entry, or a reader beside other readers, gets a new token instead of the one that they share.
    TokenNotShared,
    /// A repeated acquire is granted with a token that differs from the first one.
    TokenChanged,
    /// A claim is still valid although a larger token was granted to a claim that excludes it.
    TokenPassed,
    /// A grant has a token that a majority of the servers has not confirmed.
    NoMajority,
    /// A request that must not create a hold makes a claim hold that did not hold before.
    Revived,
    /// A claim is revoked, and while it holds its lease is extended, or another claim gets its place or joins it.
    RevokedGoesOn,
    /// A name is granted although its last holder has released it into a cooldown that is not over.
    GrantedInCooldown,
    /// A name that another library holds is taken from it before its time is over.
    TakenFromOthers,
    /// A name that nobody holds is kept from another library.
    KeptFromOthers,
    /// The server still has a claim whose release was executed or confirmed.
    NotReleased,
    /// A client is told that its claim is gone, but another claim of the same client has taken its place.
    LostToItself,
    /// A grant has a token further ahead of every server's clock than a server may follow a proposal.
    FollowedTooFar,
    /// Names are acquired together, but only some of them are granted.
    PartialGrant,
    /// An answer contradicts what the server stores, for example by calling a claim gone that the server still has.
    WrongAnswer,
    /// A client cannot read an answer.
    Unreadable,
    /// A name becomes free, or a latch opens, and the waiters are not told.
    NotWoken,
    /// A waiter is never served, even though nothing goes wrong any more.
    NotServed,
    /// A claim that the server heard recently neither waits in the queue nor holds.
    PlaceLost,
    /// A claim that waits in the queue is overtaken by another claim.
    PassedOver,
    /// A script that must advance the queue leaves the next waiter in it, although no other claim is in the way.
    NotAdvanced,
    /// A claim is granted by another claim's request, and its client is not told.
    NotTold,
    /// A claim is granted by the request of another for longer than it was alive as a waiter: it may be dead.
    GrantedTooLong,
    /// A claim is refused because a queue is full, and one of its waiters is dead.
    FullOfDead,
    /// A result is stored by a claim that does not hold, or with a token other than that of the last grant.
    StoredLate,
    /// The server shows a wrong leader or a value that the leader has not proclaimed, or a proclamation changes anything else.
    WrongLeader,
    /// Work is granted to a claim although the result of the work is already stored.
    DoneAgain,
    /// A latch is reported as open before it was counted down by as many ids as it was armed for.
    OpenedEarly,
    /// After everybody is done with a name, a newcomer is not served, or keys of the name remain.
    Remains,
}

/// A broken rule, and what broke it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The rule that is broken.
    pub rule: Rule,
    /// The claims, the name or the token involved.
    pub by: String,
}

impl Rule {
    pub(super) fn broken(self, by: impl fmt::Display) -> Violation {
        let by = by.to_string();
        Violation { rule: self, by }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} by {}: {}", self.rule, self.by, self.rule.what())
    }
}
