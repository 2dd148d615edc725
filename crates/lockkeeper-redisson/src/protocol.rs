//! The scripts of a name that Redisson's `RLock` and `RFencedLock` use too, and Redisson's names for its keys.

use std::fmt::Display;

use lockkeeper_core::protocol::{Foreign, IsWake, Protocol, RequestContext, ScriptCall};
use lockkeeper_core::{ClaimId, Kind, Name};
use lockkeeper_lua::redisson;

/// One of Redisson's keys or channels: a prefix, then the name in braces, unless the name contains a brace.
pub(crate) fn of_name(prefix: &str, name: &Name) -> String {
    let name = name.main();
    match name.contains('{') {
        true => format!("{prefix}:{name}"),
        false => format!("{prefix}:{{{name}}}"),
    }
}

/// One of Redisson's keys that starts with the name: the name in braces, unless it contains a brace, then the rest.
pub(crate) fn part_of_name(name: &Name, part: &str) -> String {
    let name = name.main();
    match name.contains('{') {
        true => format!("{name}:{part}"),
        false => format!("{{{name}}}:{part}"),
    }
}

/// Where the tokens of a hold come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// The counter of the name's slot, as for every other lock of Lockkeeper.
    Ours,
    /// The counter of an `RFencedLock` of this name.
    Redissons,
}

/// The protocol of one name.
#[derive(Debug)]
pub(crate) struct RedissonProtocol {
    name: Name,
    tokens: Tokens,
}

impl RedissonProtocol {
    pub(crate) const fn new(name: Name, tokens: Tokens) -> Self {
        Self { name, tokens }
    }

    /// The keys of Redisson's holds and of our own claims.
    pub(crate) fn keys(&self) -> [String; 2] {
        [self.name.main().to_owned(), self.name.part("redisson")]
    }

    /// The same, and the queue of an `RFairLock` of this name.
    fn keys_and_queue(&self) -> [String; 3] {
        let [main, claims] = self.keys();
        [main, claims, self.queue()]
    }

    /// The queue of an `RFairLock` of this name.
    pub(crate) fn queue(&self) -> String {
        of_name("redisson_lock_queue", &self.name)
    }

    /// Asks for the holders, on behalf of this kind.
    pub(crate) fn inspect_as(&self, kind: Kind) -> ScriptCall {
        let args: [&dyn Display; 2] = [&Foreign::channel(self), &kind];
        ScriptCall::new(&redisson::INSPECT, self.keys_and_queue(), args)
    }

    fn keys_of(&self, claim: &ClaimId) -> [String; 3] {
        let [main, claims] = self.keys();
        [main, claims, self.name.tombstone(claim)]
    }
}

impl Protocol for RedissonProtocol {
    fn kind(&self) -> Kind {
        Kind::new(match self.tokens {
            Tokens::Ours => "redisson",
            Tokens::Redissons => "redisson-fenced",
        })
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        let counter = match self.tokens {
            Tokens::Ours => self.name.counter(),
            Tokens::Redissons => of_name("redisson_lock_token", &self.name),
        };
        let fenced = u8::from(self.tokens == Tokens::Redissons);
        let args: [&dyn Display; 5] = [ask.claim, &ask.ttl_ms(), &ask.floor, &ask.token(), &fenced];
        let keys = self.keys_of(ask.claim).into_iter().chain([counter]);
        ScriptCall::new(&redisson::ACQUIRE, keys, args)
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        let args: [&dyn Display; 2] = [ask.claim, &ask.ttl_ms()];
        ScriptCall::new(&redisson::RENEW, self.keys(), args)
    }

    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        let tombstone_ttl = if overtakes { ask.ttl_ms() } else { 0 };
        let args: [&dyn Display; 4] = [
            ask.claim,
            &Foreign::channel(self),
            &ask.cooldown_ms(),
            &tombstone_ttl,
        ];
        let keys = self.keys_of(ask.claim).into_iter().chain([self.queue()]);
        ScriptCall::new(&redisson::RELEASE, keys, args)
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        ScriptCall::new(&redisson::VERIFY, self.keys(), [ask.claim])
    }

    fn reenters(&self) -> bool {
        true
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        Some(self)
    }
}

impl Foreign for RedissonProtocol {
    fn channel(&self) -> String {
        of_name("redisson_lock__channel", &self.name)
    }

    /// Redisson sends `0`. It wakes waiters with other numbers elsewhere, and one poll too many does no harm.
    fn is_wake(&self) -> IsWake {
        |message| !message.is_empty() && message.iter().all(u8::is_ascii_digit)
    }

    fn inspect(&self) -> ScriptCall {
        self.inspect_as(self.kind())
    }

    fn revoke(&self) -> ScriptCall {
        ScriptCall::new(&redisson::REVOKE, self.keys(), ScriptCall::NONE)
    }

    fn free(&self, claim: &str) -> ScriptCall {
        let args: [&dyn Display; 2] = [&claim, &Foreign::channel(self)];
        ScriptCall::new(&redisson::FREE, self.keys_and_queue(), args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str) -> String {
        let name = Name::new("", name).unwrap();
        Foreign::channel(&RedissonProtocol::new(name, Tokens::Ours))
    }

    #[test]
    fn a_name_is_put_in_braces_unless_it_has_some() {
        assert_eq!(channel("orders"), "redisson_lock__channel:{orders}");
        assert_eq!(channel("{eu}:orders"), "redisson_lock__channel:{eu}:orders");
    }

    #[test]
    fn numbers_wake_and_nothing_else_does() {
        let name = Name::new("", "orders").unwrap();
        let is_wake = RedissonProtocol::new(name, Tokens::Ours).is_wake();
        assert!(is_wake(b"0") && is_wake(b"1"));
        assert!(!is_wake(b"") && !is_wake(b"free") && !is_wake(b"-7"));
    }
}
