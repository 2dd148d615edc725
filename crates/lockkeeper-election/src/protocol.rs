//! What an election asks of the server: the requests of any lock with a queue, and what its leader says of itself.

use std::fmt::Display;
use std::sync::Arc;

use lockkeeper_core::Name;
use lockkeeper_core::protocol::{
    Joint, Kind, LockProtocol, Protocol, Queue, RequestContext, ScriptCall, Texts,
};
use lockkeeper_lua::{election, lock};

/// The number of the value that a term begins with.
pub(crate) const FIRST: u64 = 1;

const KIND: Kind = Kind::new("election");

/// By what the leader is known from now on: the `number`th value of its term.
pub(crate) fn proclaim(
    name: &Name,
    ask: RequestContext<'_>,
    number: u64,
    label: Option<&str>,
    value: &str,
) -> ScriptCall {
    let args: [&dyn Display; 6] = [
        ask.claim,
        &ask.token(),
        &number,
        &label.unwrap_or_default(),
        &value,
        &name.grants(),
    ];
    ScriptCall::new(
        &election::PROCLAIM,
        [
            name.main().to_owned(),
            name.part("holders"),
            name.part("queue"),
            name.part("state"),
        ],
        args,
    )
}

/// Lets the candidate with this claim be the next.
pub(crate) fn prefer(name: &Name, ask: RequestContext<'_>, next: &str) -> ScriptCall {
    let args: [&dyn Display; 3] = [ask.claim, &ask.waiter_ttl_ms(), &next];
    ScriptCall::new(
        &election::PREFER,
        [
            name.main().to_owned(),
            name.part("holders"),
            name.part("queue"),
            name.part("state"),
        ],
        args,
    )
}

/// Who leads.
pub(crate) fn leader(name: &Name) -> ScriptCall {
    let keys = [
        name.main().to_owned(),
        name.part("holders"),
        name.part("state"),
    ];
    ScriptCall::new(&election::LEADER, keys, [KIND.as_str().to_owned()])
}

/// One name, for candidates that are known by one value.
#[derive(Debug)]
pub(crate) struct ElectionProtocol {
    lock: LockProtocol,
    label: Option<Arc<str>>,
    value: Arc<str>,
}

impl ElectionProtocol {
    pub(crate) fn new(name: Name, label: Option<Arc<str>>, value: &str) -> Self {
        Self {
            lock: LockProtocol::new(name, KIND).queueing(),
            label,
            value: value.into(),
        }
    }
}

impl Protocol for ElectionProtocol {
    fn kind(&self) -> Kind {
        self.lock.kind()
    }

    fn name(&self) -> &Name {
        self.lock.name()
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.lock.acquire(ask)
    }

    /// What the leader is known by lies in the state, and lives as long as the claim.
    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        let mut call = self.lock.renew(ask);
        if call.script == &lock::RENEW_INFLATED {
            let state = self.name().part("state");
            call.keys = Texts::of(call.keys.iter().take(2).chain([&*state]));
        }
        call
    }

    /// Most often it is inflated, and the next leader waits for no second request.
    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        self.lock.release(ask.on_inflated(true), overtakes)
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.lock.verify(ask)
    }

    fn proclamation(&self, ask: RequestContext<'_>) -> Option<ScriptCall> {
        let (label, value) = (self.label.as_deref(), &self.value);
        Some(proclaim(self.name(), ask, FIRST, label, value))
    }

    fn queue(&self) -> Option<&dyn Queue> {
        self.lock.queue()
    }

    fn joint(&self) -> Option<&dyn Joint> {
        self.lock.joint()
    }
}
