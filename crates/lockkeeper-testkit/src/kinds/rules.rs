//! Which claims may hold a name together, and which token a grant may have. The searches ask about [`Holder`]s, of which they
//! know the claim; the simulation asks about what a server granted, a [`Grant`], and what stands there, a [`Standing`].

use std::fmt;
use std::time::Duration;

use lockkeeper_core::FencingToken;

use super::{KindModel, Mode};

/// One acquisition of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "models make and take them apart")]
pub struct Claimant {
    /// The client, counted from zero. All its claims have the same owner.
    pub client: u8,
    /// The acquisition of that client, counted from zero.
    pub attempt: u8,
}

impl fmt::Display for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", letter(self.client), self.attempt + 1)
    }
}

/// The client's letter in traces.
pub(crate) fn letter(client: u8) -> char {
    char::from(b'A'.saturating_add(client))
}

/// A claim that holds, or asks to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "models make and take them apart")]
pub struct Holder {
    /// The acquisition.
    pub claimant: Claimant,
    /// How it holds.
    pub mode: Mode,
}

/// A grant in a reply of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests make them")]
pub struct Grant {
    /// The owner of the claim.
    pub owner: String,
    /// The claim that was granted.
    pub claim: String,
    /// Its token.
    pub token: u64,
    /// How it holds.
    pub mode: Mode,
    /// When the server answered, counted from the beginning of the history.
    pub from: Duration,
    /// The time before which its lease cannot have expired on the server.
    pub until: Duration,
}

/// What an owner holds with one token, on the server or as its client assumes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests make them")]
pub struct Standing {
    /// The owner.
    pub owner: String,
    /// The token.
    pub token: u64,
    /// How it holds.
    pub mode: Mode,
    /// The claims that hold by this grant, if known.
    pub claims: Vec<String>,
}

impl Standing {
    /// Whether both are the same grant of the same owner.
    pub(crate) fn is_one_with(&self, other: &Self) -> bool {
        self.owner == other.owner && self.token == other.token
    }

    /// The permits of these grants together.
    pub(crate) fn permits_of<'a>(grants: impl IntoIterator<Item = &'a Self>) -> u32 {
        let permits = grants.into_iter().map(|grant| grant.mode.permits());
        permits.map(u32::from).sum()
    }
}

impl KindModel {
    /// Whether a claim reads. A kind without modes has no readers, whatever a claim says.
    const fn reads(&self, mode: Mode) -> bool {
        self.has_modes() && mode.reads()
    }

    /// Whether two claims may hold at the same time, permits aside: both read, or their one owner may hold several times.
    const fn may_share(&self, of_one_owner: bool, one: Mode, other: Mode) -> bool {
        self.reenters && of_one_owner || self.reads(one) && self.reads(other)
    }

    /// Whether the newcomer may hold beside the present holders. For a semaphore, the newcomer's limit applies.
    pub fn fits(&self, standing: impl IntoIterator<Item = Holder>, newcomer: Holder) -> bool {
        self.fits_in(newcomer.mode.limit(), standing, newcomer)
    }

    /// The same with an explicit limit, for a semaphore.
    pub fn fits_in(
        &self,
        limit: Option<u8>,
        standing: impl IntoIterator<Item = Holder>,
        newcomer: Holder,
    ) -> bool {
        let apart = |other: &Holder| {
            let of_one_owner = other.claimant.client == newcomer.claimant.client;
            other.claimant != newcomer.claimant
                && !self.may_share(of_one_owner, other.mode, newcomer.mode)
        };
        let mut others = standing.into_iter().filter(apart);
        match limit {
            None => others.next().is_none(),
            Some(limit) => {
                let held: u8 = others.map(|other| other.mode.permits()).sum();
                held + newcomer.mode.permits() <= limit
            }
        }
    }

    /// Whether one of the two claims may join the other because both have the same owner.
    pub fn joins(&self, one: Claimant, other: Claimant) -> bool {
        one != other && self.reenters && one.client == other.client
    }

    /// Whether a holder's token is outdated: a later grant that excludes the holder has a larger one.
    pub fn is_passed(
        &self,
        (holder, token): (Holder, FencingToken),
        (later, larger): (Holder, FencingToken),
    ) -> bool {
        larger > token && !self.fits([later], holder)
    }

    /// Whether both may hold, or assume that they hold, at the same time. The claims of one owner that writes share a token.
    ///
    /// A reader whose upgrade was executed but not yet answered keeps reading with its old token, beside others of its owner
    /// that joined with the new one. That never allows two owners at once.
    pub fn together(&self, one: &Standing, other: &Standing) -> bool {
        let of_one_owner = one.owner == other.owner;
        // The limit of a semaphore is checked for all of them together.
        self.has_permits()
            || self.may_share(of_one_owner, one.mode, other.mode)
                && (self.reads(one.mode) || self.reads(other.mode) || one.token == other.token)
    }

    /// Whether the server may answer with `next` after `last`, which is its last grant of this name, or its last grant that is
    /// not a reader's.
    pub fn follows(&self, last: &Grant, next: &Grant) -> bool {
        let is_of_last = last.claim == next.claim || self.reenters && last.owner == next.owner;
        let repeats = is_of_last && last.token == next.token;
        if last.claim == next.claim
            && next.from < last.until
            && !self.reenters
            && !self.has_permits()
            && !self.needs_a_majority()
        {
            // Repeated while its lease lasts, a request gets the same answer. In a Redlock another token may have been written
            // back in between.
            return repeats;
        }
        // Other checks ensure that new tokens of permits are the largest and that each belongs to one claim. Otherwise a token goes
        // back only from reader to reader: a read inside a write that outlives the write keeps the write's token.
        self.has_permits()
            || self.reads(last.mode) && self.reads(next.mode)
            || last.token < next.token
            || repeats
    }

    /// Whether `next` may have a token that `first` was the first to have. Readers share a token, an owner that writes has one
    /// for itself, and no writer has a token of readers.
    pub fn shares(&self, first: &Grant, next: &Grant) -> bool {
        if self.has_permits() {
            return first.claim == next.claim;
        }
        match self.reads(first.mode) {
            true => self.reads(next.mode),
            false => !self.has_modes() || first.owner == next.owner,
        }
    }
}
