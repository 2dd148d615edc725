use lockkeeper_core::protocol::{Joint, Protocol, RequestContext, ScriptCall, Together};
use lockkeeper_core::{Kind, Name};
use lockkeeper_lua::reentrant;

/// The keys and scripts of a re-entrant lock: one HASH with the owner, the token, and each claim with the end of its own
/// lease.
#[derive(Debug)]
pub(crate) struct ReentrantProtocol {
    name: Name,
}

impl ReentrantProtocol {
    pub(crate) const fn new(name: Name) -> Self {
        Self { name }
    }
}

impl Protocol for ReentrantProtocol {
    fn kind(&self) -> Kind {
        Kind::new("reentrant")
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        ScriptCall::new(
            &reentrant::ACQUIRE,
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
                ask.claim.owner().to_string(),
            ],
        )
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        ask.renewal(&reentrant::RENEW, &self.name)
    }

    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        if overtakes {
            ask.release_in_doubt(&reentrant::RELEASE_IN_DOUBT, &self.name)
        } else {
            ask.release(&reentrant::RELEASE, &self.name)
        }
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        ask.question(&reentrant::VERIFY, &self.name)
    }

    fn reenters(&self) -> bool {
        true
    }

    fn joint(&self) -> Option<&dyn Joint> {
        Some(self)
    }
}

impl Joint for ReentrantProtocol {
    fn item(&self, ask: RequestContext<'_>, verb: Together) -> ScriptCall {
        ask.group_item(self, verb)
    }
}
