use lockkeeper_core::protocol::{Modes, Protocol, Queue, RequestContext, ScriptCall};
use lockkeeper_core::{ClaimId, Kind, Name};
use lockkeeper_lua::{fair, reentrant, rwlock};

/// What a claim is to do with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// Together with others.
    Read,
    /// Alone.
    Write,
}

/// The keys and scripts of a read-write lock in one of its modes: the HASH of a writer, the ZSET of readers, and the queue of
/// both.
#[derive(Debug)]
pub(crate) struct RwProtocol {
    name: Name,
    mode: Mode,
}

impl RwProtocol {
    pub(crate) const fn reading(name: Name) -> Self {
        let mode = Mode::Read;
        Self { name, mode }
    }

    pub(crate) const fn writing(name: Name) -> Self {
        let mode = Mode::Write;
        Self { name, mode }
    }

    fn main(&self) -> String {
        self.name.main().to_owned()
    }

    fn part(&self, part: &str) -> String {
        self.name.part(part)
    }

    fn mode(&self) -> String {
        match self.mode {
            Mode::Read => "read".to_owned(),
            Mode::Write => "write".to_owned(),
        }
    }

    /// The keys of everything that may change who holds and who waits.
    fn keys(&self, claim: &ClaimId) -> [String; 6] {
        [
            self.main(),
            self.part("fence"),
            self.name.tombstone(claim),
            self.part("queue"),
            self.part("waiters"),
            self.part("readers"),
        ]
    }

    /// For how long a mark is to stop a request that may still be executed; 0 if there is none.
    fn tombstone_ttl(ask: RequestContext<'_>, overtakes: bool) -> String {
        if overtakes {
            ask.ttl_ms()
        } else {
            "0".to_owned()
        }
    }
}

impl Protocol for RwProtocol {
    fn kind(&self) -> Kind {
        Kind::new("rwlock")
    }

    fn name(&self) -> &Name {
        &self.name
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        ScriptCall::new(
            &rwlock::ACQUIRE,
            self.keys(ask.claim),
            [
                ask.claim.as_str().to_owned(),
                ask.ttl_ms(),
                ask.floor.to_string(),
                ask.token(),
                ask.claim.owner().to_string(),
                ask.waiter_ttl_ms(),
                self.name.grants(),
                ask.queue_limit(),
                self.mode(),
                ask.known_owner(),
            ],
        )
    }

    /// Under the main key a writer looks like the holder of a re-entrant lock, and is renewed by the same script.
    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        let (script, key) = match self.mode {
            Mode::Read => (&rwlock::RENEW_READ, self.part("readers")),
            Mode::Write => (&reentrant::RENEW, self.main()),
        };
        ScriptCall::new(script, [key], [ask.claim.as_str().to_owned(), ask.ttl_ms()])
    }

    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        ScriptCall::new(
            &rwlock::RELEASE,
            self.keys(ask.claim),
            [
                ask.claim.as_str().to_owned(),
                self.name.grants(),
                ask.cooldown_ms(),
                Self::tombstone_ttl(ask, overtakes),
                ask.floor.to_string(),
                ask.waiter_ttl_ms(),
                self.mode(),
                ask.known_owner(),
            ],
        )
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        let (script, key) = match self.mode {
            Mode::Read => (&rwlock::VERIFY_READ, self.part("readers")),
            Mode::Write => (&reentrant::VERIFY, self.main()),
        };
        ScriptCall::new(script, [key], [ask.claim.as_str().to_owned()])
    }

    fn reenters(&self) -> bool {
        true
    }

    fn queue(&self) -> Option<&dyn Queue> {
        Some(self)
    }

    fn modes(&self) -> Option<&dyn Modes> {
        Some(self)
    }
}

impl Queue for RwProtocol {
    fn heartbeat(&self, ask: RequestContext<'_>) -> ScriptCall {
        ScriptCall::new(
            &rwlock::HEARTBEAT,
            [
                self.main(),
                self.part("fence"),
                self.part("queue"),
                self.part("waiters"),
                self.part("readers"),
            ],
            [
                ask.claim.as_str().to_owned(),
                ask.ttl_ms(),
                ask.floor.to_string(),
                ask.waiter_ttl_ms(),
                self.name.grants(),
                self.mode(),
            ],
        )
    }

    fn position(&self, claim: &str) -> ScriptCall {
        let keys = [self.part("queue")];
        ScriptCall::new(&fair::QUEUE, keys, [claim.to_owned()])
    }
}

impl Modes for RwProtocol {
    fn batch(&self) -> &'static str {
        match self.mode {
            Mode::Read => "rwlock/read",
            Mode::Write => "rwlock/write",
        }
    }

    fn convert(&self, ask: RequestContext<'_>, old: &ClaimId, overtakes: bool) -> ScriptCall {
        let keys = self.keys(ask.claim).into_iter();
        ScriptCall::new(
            &rwlock::CONVERT,
            keys.chain([self.name.tombstone(old)]),
            [
                ask.claim.as_str().to_owned(),
                ask.ttl_ms(),
                ask.floor.to_string(),
                ask.waiter_ttl_ms(),
                self.name.grants(),
                self.mode(),
                old.as_str().to_owned(),
                Self::tombstone_ttl(ask, overtakes),
            ],
        )
    }
}
