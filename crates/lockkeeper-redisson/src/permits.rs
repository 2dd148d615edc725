//! The scripts of a name that Redisson's `RSemaphore` or `RPermitExpirableSemaphore` holds permits of too.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockkeeper_core::protocol::{Foreign, IsWake, Protocol, RequestContext, ScriptCall};
use lockkeeper_core::store::{Reply, Value};
use lockkeeper_core::{ClaimId, Error, Kind, Name, Result};
use lockkeeper_lua::{Status, redisson};

use crate::protocol::{of_name, part_of_name};

/// Whose permits they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// An `RSemaphore`'s: only this library knows of ends, and only of its own claims.
    Ours,
    /// An `RPermitExpirableSemaphore`'s: each permit has an end that all know.
    Redissons,
}

impl Ends {
    /// The most permits that one claim may take. In Java the number is an `int`; where each permit has an id, one
    /// script writes all of them.
    const fn most(self) -> u32 {
        match self {
            Self::Ours => i32::MAX.unsigned_abs(),
            Self::Redissons => 1_000,
        }
    }
}

/// Claims that take so many permits of one name.
#[derive(Debug)]
pub(crate) struct PermitsProtocol {
    name: Name,
    ends: Ends,
    permits: u32,
    /// How many permits there are as far as is known, if the last acquire asked for more; otherwise `ENOUGH`.
    known: AtomicU32,
}

/// There may be as many permits as a claim asks for.
const ENOUGH: u32 = u32::MAX;

impl PermitsProtocol {
    /// The protocol of a semaphore under this key, which belongs to no namespace.
    pub(crate) fn of_key(ends: Ends, key: &str, permits: u32) -> Result<Self> {
        let name = Name::new("", key)?;
        let most = ends.most();
        match permits {
            0 => Err(Error::config(
                "an acquisition must take at least one permit",
            )),
            _ if permits > most => Err(Error::config(format!(
                "an acquisition of {permits} permits is too large: at most {most} can be taken at once"
            ))),
            _ => Ok(Self::taking(name, ends, permits)),
        }
    }

    const fn taking(name: Name, ends: Ends, permits: u32) -> Self {
        Self {
            name,
            ends,
            permits,
            known: AtomicU32::new(ENOUGH),
        }
    }

    fn leased(&self) -> u8 {
        u8::from(self.ends == Ends::Redissons)
    }

    /// What Redisson writes too, and what is known of our claims.
    fn keys(&self) -> [String; 3] {
        [
            self.name.main().to_owned(),
            ends_of(self.ends, &self.name),
            self.name.part("redisson-permits"),
        ]
    }

    fn keys_of(&self, claim: &ClaimId) -> impl Iterator<Item = String> + use<> {
        self.keys().into_iter().chain([self.name.tombstone(claim)])
    }
}

/// Where the ends of permits are noted.
fn ends_of(ends: Ends, name: &Name) -> String {
    match ends {
        Ends::Ours => name.part("redisson-ends"),
        Ends::Redissons => part_of_name(name, "timeout"),
    }
}

/// The channel of either semaphore.
fn channel_of(name: &Name) -> String {
    of_name("redisson_sc", name)
}

/// Sets a semaphore up with `n` permits, unless it has been; or asks only how many are available.
pub(crate) fn set(ends: Ends, name: &Name, n: Option<u32>) -> ScriptCall {
    let keys = [
        name.main().to_owned(),
        ends_of(ends, name),
        name.part("redisson-permits"),
    ];
    let leased = u8::from(ends == Ends::Redissons);
    let args: [&dyn Display; 3] = [&n.unwrap_or(0), &channel_of(name), &leased];
    ScriptCall::new(&redisson::PERMITS_SET, keys, args)
}

impl Protocol for PermitsProtocol {
    fn kind(&self) -> Kind {
        Kind::new(match self.ends {
            Ends::Ours => "redisson-semaphore",
            Ends::Redissons => "redisson-permits",
        })
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        let args: [&dyn Display; 7] = [
            ask.claim,
            &ask.ttl_ms(),
            &ask.floor,
            &ask.token(),
            &self.permits,
            &self.leased(),
            &channel_of(&self.name),
        ];
        let keys = self.keys_of(ask.claim).chain([self.name.counter()]);
        ScriptCall::new(&redisson::PERMITS_ACQUIRE, keys, args)
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        let args: [&dyn Display; 3] = [ask.claim, &ask.ttl_ms(), &self.leased()];
        ScriptCall::new(&redisson::PERMITS_RENEW, self.keys(), args)
    }

    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        let tombstone_ttl = if overtakes { ask.ttl_ms() } else { 0 };
        let args: [&dyn Display; 5] = [
            ask.claim,
            &channel_of(&self.name),
            &ask.cooldown_ms(),
            &tombstone_ttl,
            &self.leased(),
        ];
        ScriptCall::new(&redisson::PERMITS_RELEASE, self.keys_of(ask.claim), args)
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        let args: [&dyn Display; 2] = [ask.claim, &self.leased()];
        ScriptCall::new(&redisson::PERMITS_VERIFY, self.keys(), args)
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        Some(self)
    }
}

impl Foreign for PermitsProtocol {
    fn channel(&self) -> String {
        channel_of(&self.name)
    }

    /// Redisson says how many permits are available, or how many have become so.
    fn is_wake(&self) -> IsWake {
        |message| !message.is_empty() && message.iter().all(u8::is_ascii_digit)
    }

    fn shares(&self) -> bool {
        true
    }

    fn parts(&self) -> u32 {
        self.permits
    }

    fn hears(&self, reply: &Reply) {
        if reply.status() == Status::Busy {
            let known = reply.field(2).and_then(Value::as_i64);
            let known = known.map(|known| u32::try_from(known.max(0)).unwrap_or(ENOUGH));
            self.known.store(known.unwrap_or(ENOUGH), Ordering::Relaxed);
        }
    }

    fn parts_known(&self) -> Option<u32> {
        Some(self.known.load(Ordering::Relaxed)).filter(|known| *known != ENOUGH)
    }

    /// An end that only this library knows wakes nobody in Java.
    fn cools_down(&self) -> bool {
        self.ends == Ends::Redissons
    }

    fn inspect(&self) -> ScriptCall {
        let (channel, kind) = (channel_of(&self.name), self.kind());
        let args: [&dyn Display; 3] = [&channel, &kind, &self.leased()];
        ScriptCall::new(&redisson::PERMITS_INSPECT, self.keys(), args)
    }

    fn revoke(&self) -> ScriptCall {
        ScriptCall::new(&redisson::PERMITS_REVOKE, self.keys(), [self.leased()])
    }

    fn free(&self, claim: &str) -> ScriptCall {
        let channel = channel_of(&self.name);
        let args: [&dyn Display; 3] = [&claim, &channel, &self.leased()];
        ScriptCall::new(&redisson::PERMITS_FREE, self.keys(), args)
    }
}

/// The protocol of a claim that takes one permit of an `RSemaphore`, for models of it.
#[doc(hidden)]
#[must_use]
pub fn semaphore_protocol(name: Name) -> Arc<dyn Protocol> {
    of_one_permit(name, Ends::Ours)
}

/// The same of an `RPermitExpirableSemaphore`.
#[doc(hidden)]
#[must_use]
pub fn permits_protocol(name: Name) -> Arc<dyn Protocol> {
    of_one_permit(name, Ends::Redissons)
}

fn of_one_permit(name: Name, ends: Ends) -> Arc<dyn Protocol> {
    Arc::new(PermitsProtocol::taking(name, ends, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_those_of_redisson() {
        let keys = |ends, name| PermitsProtocol::of_key(ends, name, 1).unwrap().keys();
        assert_eq!(
            keys(Ends::Redissons, "calls")[..2],
            ["calls", "{calls}:timeout"]
        );
        assert_eq!(keys(Ends::Redissons, "{eu}:calls")[1], "{eu}:calls:timeout");
        assert_eq!(
            keys(Ends::Ours, "calls")[1],
            "lockkeeper.redisson-ends:{calls}"
        );
    }

    #[test]
    fn a_number_of_permits_that_cannot_be_taken_is_refused() {
        let taken = |ends, permits| PermitsProtocol::of_key(ends, "calls", permits).is_ok();
        assert!(taken(Ends::Ours, 1_001) && taken(Ends::Redissons, 1_000));
        assert!(!taken(Ends::Redissons, 1_001) && !taken(Ends::Ours, u32::MAX));
        assert!(!taken(Ends::Ours, 0) && !taken(Ends::Redissons, 0));
    }
}
