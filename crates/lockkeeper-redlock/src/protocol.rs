use std::fmt::Display;
use std::time::Duration;

use lockkeeper_core::protocol::{
    LockProtocol, MajorityMember, Protocol, RequestContext, ScriptCall,
};
use lockkeeper_core::{FencingToken, Kind, Name};
use lockkeeper_lua::redlock;

const KIND: Kind = Kind::new("redlock");

/// The keys and scripts of one server of a Redlock: one string key with the value of the holder's claim.
///
/// The Redlocks of other libraries write a string under the name itself on each server. So with an empty namespace
/// these locks and ours exclude each other.
#[derive(Debug)]
pub(crate) struct RedlockProtocol {
    name: Name,
    /// The protocol of a single lock of this kind, used for everything except acquiring.
    plain: LockProtocol,
    /// The longest ttl in use. A restarted server grants nothing for that long.
    longest: Duration,
}

impl RedlockProtocol {
    pub(crate) fn new(name: Name, longest: Duration) -> Self {
        let plain = LockProtocol::new(name.clone(), KIND);
        Self {
            name,
            plain,
            longest,
        }
    }

    fn main(&self) -> String {
        self.name.main().to_owned()
    }
}

impl Protocol for RedlockProtocol {
    fn kind(&self) -> Kind {
        KIND
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        let longest = self.longest.as_micros().div_ceil(1000);
        let args: [&dyn Display; 5] = [
            ask.claim,
            &ask.ttl_ms(),
            &ask.proposal,
            &longest,
            &u8::from(ask.polled),
        ];
        ScriptCall::new(
            &redlock::ACQUIRE,
            [
                self.main(),
                self.name.counter(),
                self.name.tombstone(ask.claim),
            ],
            args,
        )
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.plain.renew(ask)
    }

    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        self.plain.release(ask, overtakes)
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.plain.verify(ask)
    }

    fn majority(&self) -> Option<&dyn MajorityMember> {
        Some(self)
    }
}

impl MajorityMember for RedlockProtocol {
    fn raise(&self, ask: RequestContext<'_>, token: FencingToken) -> ScriptCall {
        let claim = ask.claim.as_str().to_owned();
        ScriptCall::new(
            &redlock::RAISE,
            [self.main(), self.name.counter()],
            [claim, token.to_string()],
        )
    }
}
