use lockkeeper_core::protocol::{Joint, Protocol, RequestContext, ScriptCall, Together};
use lockkeeper_core::{Kind, Name};
use lockkeeper_lua::mutex;

/// The keys and scripts of a mutex: one string key with the holder's claim.
///
/// With an empty namespace that is what redis-py, redsync, node-redlock and others write, so they exclude one another.
#[derive(Debug)]
pub(crate) struct MutexProtocol {
    name: Name,
}

impl MutexProtocol {
    pub(crate) const fn new(name: Name) -> Self {
        Self { name }
    }
}

impl Protocol for MutexProtocol {
    fn kind(&self) -> Kind {
        Kind::new("mutex")
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        ScriptCall::new(
            &mutex::ACQUIRE,
            [
                self.name.main().to_owned(),
                self.name.part("fence"),
                self.name.tombstone(ask.claim),
            ],
            [
                ask.claim.as_str().to_owned(),
                ask.ttl_ms(),
                ask.floor.to_string(),
                ask.token(),
            ],
        )
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        ask.renewal(&mutex::RENEW, &self.name)
    }

    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        if overtakes {
            ask.release_in_doubt(&mutex::RELEASE_IN_DOUBT, &self.name)
        } else {
            ask.release(&mutex::RELEASE, &self.name)
        }
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        ask.question(&mutex::VERIFY, &self.name)
    }

    fn joint(&self) -> Option<&dyn Joint> {
        Some(self)
    }
}

impl Joint for MutexProtocol {
    fn item(&self, ask: RequestContext<'_>, verb: Together) -> ScriptCall {
        ask.group_item(self, verb)
    }
}
