//! A question about a name. It belongs to no claim.

use lockkeeper_lua::Status;

use crate::engine::Engine;
use crate::schedule::pause::Pauses;
use crate::seam::protocol::ScriptCall;
use crate::seam::store::Reply;
use crate::words::error::{Error, Result};
use crate::words::kind::Kind;
use crate::words::name::Name;
use crate::words::store_error::{Outcome, StoreError};

/// How often a question is sent at most. Repeating is harmless: running a question twice has the same effect as running
/// it once, except for those made by [`Question::once`].
pub(super) const TRIES: usize = 2;

/// What is asked, as errors say it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    /// Placed before the word "lock".
    doing: &'static str,
    /// The kind in the error for a key of another type.
    kind: &'static str,
    tries: usize,
}

impl Question {
    pub(super) const INSPECT: Self = Self::new("inspect", "known");
    pub(super) const REVOKE: Self = Self::new("revoke", "revocable");
    pub(super) const FORCE: Self = Self::new("release", "known");
    pub(super) const QUEUE: Self = Self::new("look at the queue of", "known");

    const fn new(doing: &'static str, kind: &'static str) -> Self {
        let tries = TRIES;
        Self { doing, kind, tries }
    }

    /// A request that only this kind has.
    pub(crate) const fn of(kind: Kind, doing: &'static str) -> Self {
        Self::new(doing, kind.as_str())
    }

    /// The same for a request that must not be executed twice: it is sent once.
    pub(crate) const fn once(self) -> Self {
        Self { tries: 1, ..self }
    }

    /// Asks about a name; see [`put`].
    pub(crate) async fn ask(
        self,
        engine: &Engine,
        name: &Name,
        item: impl Fn() -> ScriptCall,
    ) -> Result<(Reply, Option<StoreError>)> {
        let answered = put(engine, self.tries, item).await?;
        let (reply, doubt) = answered.map_err(|error| self.failed(name, error))?;
        if reply.status() == Status::WrongKind {
            return Err(Error::wrong_kind(name.as_str(), self.kind, name.main()));
        }
        Ok((reply, doubt))
    }

    pub(super) fn failed(self, name: &Name, error: StoreError) -> Error {
        Error::backend(format!("{} lock {:?}", self.doing, name.as_str()), error)
    }
}

/// Sends a question until there is an answer, at most `tries` times. Besides the answer it returns why an earlier
/// request got none, if that request may have been executed. Closing the client stops it at once, because a question
/// has no claim to release.
pub(super) async fn put(
    engine: &Engine,
    tries: usize,
    item: impl Fn() -> ScriptCall,
) -> Result<Result<(Reply, Option<StoreError>), StoreError>> {
    drop(engine.enter()?);
    let timeout = engine.settings.request_timeout;
    let mut doubt = None;
    let asking = async {
        // A connection that is down fails both tries at once, unless it has a moment to come back.
        let mut pauses = Pauses::new(engine.id.as_u64_pair().1);
        let mut tried = 0;
        loop {
            tried += 1;
            match engine.requester.run(&item, timeout).await {
                Err(error) if error.is_transient() && tried < tries => {
                    doubt = Some(error).filter(|error| error.outcome() == Outcome::Unknown);
                    tokio::time::sleep(pauses.next()).await;
                }
                outcome => break outcome,
            }
        }
    };
    tokio::select! {
        biased;
        () = engine.closed() => Err(Error::Closed),
        outcome = asking => Ok(outcome.map(|reply| (reply, doubt))),
    }
}

pub(super) fn unexpected(name: &Name, reply: &Reply) -> Error {
    Error::unexpected(name.as_str(), reply.status().as_str())
}
