use lockkeeper_core::protocol::{Protocol, Queue, RequestContext, ScriptCall};
use lockkeeper_core::{Kind, Name};
use lockkeeper_lua::{fair, reentrant};

/// The keys and scripts of a fair lock: the HASH of a re-entrant lock, and beside it the queue.
#[derive(Debug)]
pub(crate) struct FairProtocol {
    name: Name,
}

impl FairProtocol {
    pub(crate) const fn new(name: Name) -> Self {
        Self { name }
    }

    fn main(&self) -> String {
        self.name.main().to_owned()
    }

    fn part(&self, part: &str) -> String {
        self.name.part(part)
    }

    /// The keys of everything that may change the queue and the holder.
    fn keys(&self, ask: RequestContext<'_>) -> [String; 5] {
        [
            self.main(),
            self.part("fence"),
            self.name.tombstone(ask.claim),
            self.part("queue"),
            self.part("waiters"),
        ]
    }
}

impl Protocol for FairProtocol {
    fn kind(&self) -> Kind {
        Kind::new("fair")
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        ScriptCall::new(
            &fair::ACQUIRE,
            self.keys(ask),
            [
                ask.claim.as_str().to_owned(),
                ask.ttl_ms(),
                ask.floor.to_string(),
                ask.token(),
                ask.claim.owner().to_string(),
                ask.waiter_ttl_ms(),
                self.name.grants(),
                ask.queue_limit(),
            ],
        )
    }

    /// A hold looks like that of a re-entrant lock, and is renewed by the same script.
    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        ask.renewal(&reentrant::RENEW, &self.name)
    }

    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        let tombstone_ttl = if overtakes {
            ask.ttl_ms()
        } else {
            "0".to_owned()
        };
        ScriptCall::new(
            &fair::RELEASE,
            self.keys(ask),
            [
                ask.claim.as_str().to_owned(),
                self.name.grants(),
                ask.cooldown_ms(),
                tombstone_ttl,
                ask.floor.to_string(),
                ask.waiter_ttl_ms(),
            ],
        )
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        ask.question(&reentrant::VERIFY, &self.name)
    }

    fn reenters(&self) -> bool {
        true
    }

    fn queue(&self) -> Option<&dyn Queue> {
        Some(self)
    }
}

impl Queue for FairProtocol {
    fn heartbeat(&self, ask: RequestContext<'_>) -> ScriptCall {
        ScriptCall::new(
            &fair::HEARTBEAT,
            [
                self.main(),
                self.part("fence"),
                self.part("queue"),
                self.part("waiters"),
            ],
            [
                ask.claim.as_str().to_owned(),
                ask.ttl_ms(),
                ask.floor.to_string(),
                ask.waiter_ttl_ms(),
                self.name.grants(),
            ],
        )
    }

    fn position(&self, claim: &str) -> ScriptCall {
        let keys = [self.part("queue")];
        ScriptCall::new(&fair::QUEUE, keys, [claim.to_owned()])
    }
}
