//! The requests of an election: those of any lock with a queue, and those about the leader's value.

use std::fmt::Display;
use std::sync::Arc;

use lockkeeper_core::Name;
use lockkeeper_core::protocol::{
    Joint, Kind, LockProtocol, Protocol, Queue, RequestContext, ScriptCall, Texts,
};
use lockkeeper_lua::{election, lock};

/// The number of the first value of a term.
pub(crate) const FIRST: u64 = 1;

const KIND: Kind = Kind::new("election");

/// Sets the `number`th value of the leader's term.
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

/// Moves the candidate with this claim to the front of the queue.
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

/// Asks who leads.
pub(crate) fn leader(name: &Name) -> ScriptCall {
    let keys = [
        name.main().to_owned(),
        name.part("holders"),
        name.part("state"),
    ];
    ScriptCall::new(&election::LEADER, keys, [KIND.as_str().to_owned()])
}

/// The protocol of candidates for one name, with one value.
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

    fn shares_tokens(&self) -> bool {
        self.lock.shares_tokens()
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.lock.acquire(ask)
    }

    /// Also renews the state, because the leader's value is stored there and must live as long as the claim.
    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        let mut call = self.lock.renew(ask);
        if call.script == &lock::RENEW_INFLATED {
            let state = self.name().part("state");
            call.keys = Texts::of(call.keys.iter().take(2).chain([&*state]));
        }
        call
    }

    /// Assumes that the name is inflated, as it is most of the time, so that the next leader does not wait for a
    /// second request.
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
