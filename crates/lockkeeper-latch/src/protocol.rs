//! The requests of a latch's waiters. Their claims never hold anything: an acquire only reads the state, and its
//! answer ends the wait of all waiters of one client for the same latch, as it does for a `Once`.

use lockkeeper_core::Name;
use lockkeeper_core::protocol::{
    FencingToken, Kind, LockProtocol, Protocol, Recorded, RequestContext, ScriptCall,
};
use lockkeeper_lua::latch;

/// The protocol of the waiters of one latch.
#[derive(Debug)]
pub(crate) struct LatchProtocol {
    lock: LockProtocol,
}

impl LatchProtocol {
    pub(crate) const fn new(name: Name) -> Self {
        let lock = LockProtocol::new(name, Kind::new("latch"));
        Self { lock }
    }
}

/// The keys of a latch.
pub(crate) fn keys(name: &Name) -> [String; 2] {
    [name.main().to_owned(), name.part("counted")]
}

/// Asks for the state of the latch called `name`.
pub(crate) fn look(name: &Name) -> ScriptCall {
    ScriptCall::new(&latch::LOOK, keys(name), ScriptCall::NONE)
}

impl Protocol for LatchProtocol {
    fn kind(&self) -> Kind {
        self.lock.kind()
    }

    fn name(&self) -> &Name {
        self.lock.name()
    }

    fn acquire(&self, _: RequestContext<'_>) -> ScriptCall {
        look(self.name())
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.lock.renew(ask)
    }

    /// A read that arrives late creates nothing, so the release leaves no tombstone to stop it.
    fn release(&self, ask: RequestContext<'_>, _overtakes: bool) -> ScriptCall {
        self.lock.release(ask.on_inflated(false), false)
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.lock.verify(ask.on_inflated(false))
    }

    fn recorded(&self) -> Option<&dyn Recorded> {
        Some(self)
    }
}

impl Recorded for LatchProtocol {
    fn record(&self, _forget: Option<FencingToken>) -> ScriptCall {
        look(self.name())
    }
}
