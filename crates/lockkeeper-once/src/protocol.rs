//! The requests of a `Once`. They are those of any lock, except that an acquire may find the work done, and a release
//! may store its outcome.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_core::protocol::{
    FencingToken, Kind, LockProtocol, Protocol, Recorded, RequestContext, ScriptCall,
};
use lockkeeper_core::{Name, Record};
use lockkeeper_lua::once;

/// The outcome of the work, to be stored by the release of the claim that did it.
#[derive(Debug)]
pub(crate) struct ToStore {
    token: FencingToken,
    keep_for: Duration,
    form: &'static str,
    fingerprint: String,
    value: String,
}

impl ToStore {
    /// The work was done with this token, and this is its result.
    pub(crate) fn done(token: FencingToken, value: &[u8], keep_for: Duration) -> Self {
        let (form, value) = Record::write(value);
        Self {
            token,
            keep_for,
            form,
            fingerprint: String::new(),
            value,
        }
    }

    /// The work has failed.
    pub(crate) const fn failed(token: FencingToken, retry_after: Duration) -> Self {
        Self {
            token,
            keep_for: retry_after,
            form: "failed",
            fingerprint: String::new(),
            value: String::new(),
        }
    }

    pub(crate) fn asked_for_with(mut self, fingerprint: &str) -> Self {
        fingerprint.clone_into(&mut self.fingerprint);
        self
    }
}

/// The protocol of one caller of the work.
#[derive(Debug)]
pub(crate) struct OnceProtocol {
    lock: LockProtocol,
    name: Name,
    to_store: Arc<OnceLock<ToStore>>,
    /// Whether to do the work even if a result is stored, and replace that result.
    again: bool,
}

impl OnceProtocol {
    /// As soon as `to_store` is set, releases store that outcome.
    pub(crate) fn new(name: Name, to_store: &Arc<OnceLock<ToStore>>) -> Self {
        Self {
            lock: LockProtocol::new(name.clone(), Kind::new("once")),
            name,
            to_store: Arc::clone(to_store),
            again: false,
        }
    }

    pub(crate) const fn again(mut self, again: bool) -> Self {
        self.again = again;
        self
    }

    fn record_key(&self) -> String {
        self.name.part("record")
    }
}

impl Protocol for OnceProtocol {
    fn kind(&self) -> Kind {
        self.lock.kind()
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn shares_tokens(&self) -> bool {
        self.lock.shares_tokens()
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        let mut call = self.lock.acquire(ask);
        if !self.again {
            call.script = &once::ACQUIRE;
            call.keys.push(self.record_key());
        }
        call
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.lock.renew(ask)
    }

    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        let Some(to_store) = self.to_store.get() else {
            return self.lock.release(ask, overtakes);
        };
        let tombstone_ttl = if overtakes { ask.ttl_ms() } else { 0 };
        let args: [&dyn Display; 8] = [
            ask.claim,
            &to_store.token,
            &self.name.wakes(),
            &tombstone_ttl,
            &to_store.keep_for.as_millis(),
            &to_store.form,
            &to_store.fingerprint,
            &to_store.value,
        ];
        ScriptCall::new(
            &once::STORE,
            [
                self.name.main().to_owned(),
                self.name.tombstone(ask.claim),
                self.record_key(),
            ],
            args,
        )
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.lock.verify(ask)
    }

    fn recorded(&self) -> Option<&dyn Recorded> {
        Some(self)
    }
}

impl Recorded for OnceProtocol {
    fn record(&self, forget: Option<FencingToken>) -> ScriptCall {
        let forget = forget.map_or(0, FencingToken::get).to_string();
        ScriptCall::new(&once::RECORD, [self.record_key()], [forget])
    }
}
