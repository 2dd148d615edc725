//! The scripts, in each mode, of a name that Redisson's `RReadWriteLock` uses too.

use std::borrow::Cow;
use std::fmt::Display;

use lockkeeper_core::protocol::{Foreign, IsWake, Protocol, RequestContext, ScriptCall};
use lockkeeper_core::{ClaimId, Kind, Name};
use lockkeeper_lua::redisson;

use crate::protocol::of_name;

/// How a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Together with other readers.
    Read,
    /// Alone.
    Write,
}

impl Mode {
    /// Redisson's word for it.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// One name, in one mode.
#[derive(Debug)]
pub(crate) struct ReadWriteProtocol {
    name: Name,
    mode: Mode,
}

impl ReadWriteProtocol {
    pub(crate) const fn new(name: Name, mode: Mode) -> Self {
        Self { name, mode }
    }

    /// The keys of Redisson's holds and of our own claims.
    fn keys(&self) -> [String; 2] {
        [self.name.main().to_owned(), self.name.part("redisson")]
    }

    /// Redisson's key for the first read of an owner. All our claims of the owner share it: Redisson looks for the longest lease of
    /// all such keys.
    fn timeout(&self, claim: &ClaimId) -> String {
        let (name, owner) = (self.name.main(), claim.owner());
        match name.contains('{') {
            true => format!("{name}:{owner}:rwlock_timeout:1"),
            false => format!("{{{name}}}:{owner}:rwlock_timeout:1"),
        }
    }
}

impl Protocol for ReadWriteProtocol {
    fn kind(&self) -> Kind {
        Kind::new("redisson-rwlock")
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn mode(&self) -> Cow<'static, str> {
        match self.mode {
            Mode::Read => "redisson-rwlock/read".into(),
            Mode::Write => "redisson-rwlock/write".into(),
        }
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        let ([main, claims], claim) = (self.keys(), ask.claim);
        let (tombstone, counter) = (self.name.tombstone(claim), self.name.counter());
        let keys = [main, claims, tombstone, counter, self.timeout(claim)];
        let mode = self.mode.as_str();
        let args: [&dyn Display; 5] = [claim, &mode, &ask.ttl_ms(), &ask.floor, &ask.token()];
        ScriptCall::new(&redisson::RWLOCK_ACQUIRE, keys, args)
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        let [main, claims] = self.keys();
        let args: [&dyn Display; 3] = [ask.claim, &self.mode.as_str(), &ask.ttl_ms()];
        ScriptCall::new(
            &redisson::RWLOCK_RENEW,
            [main, claims, self.timeout(ask.claim)],
            args,
        )
    }

    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        let ([main, claims], claim) = (self.keys(), ask.claim);
        let keys = [
            main,
            claims,
            self.name.tombstone(claim),
            self.timeout(claim),
        ];
        let tombstone_ttl = if overtakes { ask.ttl_ms() } else { 0 };
        let args: [&dyn Display; 5] = [
            claim,
            &self.mode.as_str(),
            &Foreign::channel(self),
            &ask.cooldown_ms(),
            &tombstone_ttl,
        ];
        ScriptCall::new(&redisson::RWLOCK_RELEASE, keys, args)
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        let args: [&dyn Display; 2] = [ask.claim, &self.mode.as_str()];
        let [main, claims] = self.keys();
        let keys = [main, claims, self.timeout(ask.claim)];
        ScriptCall::new(&redisson::RWLOCK_VERIFY, keys, args)
    }

    fn reenters(&self) -> bool {
        true
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        Some(self)
    }
}

impl Foreign for ReadWriteProtocol {
    /// Readers and writers share it.
    fn channel(&self) -> String {
        of_name("redisson_rwlock", &self.name)
    }

    /// Redisson sends `0` when the last reader releases, and `1` when a writer does.
    fn is_wake(&self) -> IsWake {
        |message| !message.is_empty() && message.iter().all(u8::is_ascii_digit)
    }

    fn shares(&self) -> bool {
        self.mode == Mode::Read
    }

    fn inspect(&self) -> ScriptCall {
        let args: [&dyn Display; 2] = [&Foreign::channel(self), &self.kind()];
        ScriptCall::new(&redisson::RWLOCK_INSPECT, self.keys(), args)
    }

    fn revoke(&self) -> ScriptCall {
        ScriptCall::new(&redisson::RWLOCK_REVOKE, self.keys(), ScriptCall::NONE)
    }

    fn free(&self, claim: &str) -> ScriptCall {
        let args: [&dyn Display; 2] = [&claim, &Foreign::channel(self)];
        ScriptCall::new(&redisson::RWLOCK_FREE, self.keys(), args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_channel_are_called_as_by_redisson() {
        let owner = "67e55044-10b1-426f-9247-bb680e5fe0c8:7";
        let claim = ClaimId::new(owner.parse().unwrap(), 1);
        let named = |name: &str| {
            let name = Name::new("", name).unwrap();
            let protocol = ReadWriteProtocol::new(name, Mode::Read);
            (Foreign::channel(&protocol), protocol.timeout(&claim))
        };
        let expected = |channel: &str, timeout: &str| {
            let timeout = format!("{timeout}:{owner}:rwlock_timeout:1");
            (channel.to_owned(), timeout)
        };
        assert_eq!(
            named("prices"),
            expected("redisson_rwlock:{prices}", "{prices}")
        );
        assert_eq!(
            named("{eu}:prices"),
            expected("redisson_rwlock:{eu}:prices", "{eu}:prices")
        );
    }
}
