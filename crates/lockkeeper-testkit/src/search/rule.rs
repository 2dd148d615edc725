//! The rules, each with one name in all searches.

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
    /// Claims that exclude one another are valid at once.
    Overlap,
    /// A claim is valid for longer than the server keeps it.
    ValidTooLong,
    /// A claim's validity had ended and has come back.
    ValidAgain,
    /// A grant's token is not larger than that of the grant before, which excludes it.
    TokenNotLarger,
    /// A re-entry, or a reader beside others, does not share their token.
    TokenNotShared,
    /// A repeated acquire is granted another token than the first.
    TokenChanged,
    /// A claim is valid, and a larger token has been granted to one that excludes it.
    TokenPassed,
    /// A majority of servers has not answered that a grant's token is the claim's.
    NoMajority,
    /// A request that may not create has made a claim hold that did not.
    Revived,
    /// A release was executed, or confirmed, and the server has the claim.
    NotReleased,
    /// A claim is told that it is gone while another of its own client has its place.
    LostToItself,
    /// Of names that are acquired together one is granted and another is not.
    PartialGrant,
    /// An answer is not true: of one of several names, of a result, or that a claim is gone which the server has.
    WrongAnswer,
    /// An answer cannot be read.
    Unreadable,
    /// A release has freed a name, and its waiters are not told.
    NotWoken,
    /// Nothing goes wrong any more, and a waiter is never served.
    NotServed,
    /// A claim was heard not long ago, and neither waits in the queue nor holds.
    PlaceLost,
    /// A claim stands in the queue, and another gets past it.
    PassedOver,
    /// A claim is next, nobody is in its way, and a script that must advance the queue has not.
    NotAdvanced,
    /// A claim is granted by the request of another, and its client is not told.
    NotTold,
    /// A claim is granted by the request of another for longer than it was alive as a waiter: it may be dead.
    GrantedTooLong,
    /// A claim is refused because a queue is full, and one of its waiters is dead.
    FullOfDead,
    /// A result is stored by a claim that does not hold, or not with the token of the last grant.
    StoredLate,
    /// Of a leader something is known that it has not proclaimed, or a proclamation has changed more than that.
    WrongLeader,
    /// Work is granted to a claim although its result is stored.
    DoneAgain,
    /// A latch is open, and not as many ids have counted it down as it was armed with.
    OpenedEarly,
    /// When nobody wants the name any more, a late comer is not served, or something of the name remains.
    Remains,
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The rule.
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
