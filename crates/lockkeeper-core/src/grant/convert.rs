//! Conversion: a hold continues in another mode, with another claim of the same owner. No other owner can hold in between.

use std::sync::Arc;

use tracing::Span;

use crate::claim::{Ending, NotNow, Validity, Verdict};
use crate::engine::part::Part;
use crate::engine::release::observe_released;
use crate::engine::requester::Failed;
use crate::engine::unreleased::Unreleased;
use crate::grant::hold::Hold;
use crate::schedule::pause::Pauses;
use crate::seam::protocol::Protocol;
use crate::words::ending::LossReason;
use crate::words::error::{Error, Result};
use crate::words::name::Name;
use crate::words::store_error::StoreError;
use crate::words::token::FencingToken;

/// The outcome of a conversion.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there are exactly two outcomes")]
pub enum Converted {
    /// The new claim holds.
    Done(Hold),
    /// Others hold too, and the old claim holds as before.
    Refused(Hold),
}

impl Hold {
    /// Replaces this hold's claim by a new one in another mode of the same name, with another protocol. Set
    /// `stays_valid` only if the new mode excludes everything that the old one does: this hold then stays valid until the
    /// answer. Otherwise it ends before anything is sent.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`] if this lease has ended, here or on the server;
    /// - [`Error::Backend`] if the server refuses or does not answer within the client's release timeout, and also if it
    ///   reports other holders after an earlier request got no answer, because that request may still be executed;
    /// - [`Error::Closed`] if the client is closed.
    ///
    /// After an error nothing is held: what the server may still hold is released in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives up both claims.
    pub async fn convert<P: Protocol>(
        self,
        protocol: impl FnOnce(Name) -> P + Send,
        stays_valid: bool,
    ) -> Result<Converted> {
        self.ensure_held()?;
        let (old, engine) = self.only_part()?;
        let started = old.now();
        // If this future is dropped, both claims post releases, and closing the client must wait for these. So both
        // claims must be dropped before the pass. The old claim may still be valid, so it must end before a release of
        // the new one is sent.
        let pass = engine.enter()?;
        let mut terms = old.terms;
        (terms.min_hold, terms.max_hold) = (None, None);
        let protocol: Arc<dyn Protocol> = Arc::new(protocol(old.protocol.name().clone()));
        let id = engine.claim(old.id.owner());
        let new = engine.arm(id, &protocol, terms, old.note.clone(), Some(&old));
        let claims = Unreleased {
            engine: Arc::clone(&engine),
            parts: vec![Arc::clone(&new)],
            server: None,
        };
        let (_pass, claims, mut hold) = (pass, claims, self);
        let granted = tokio::select! {
            biased;
            () = engine.closed() => return Err(Error::Closed),
            granted = ask(&old, &new, stays_valid, engine.settings.release_timeout) => granted?,
        };
        let Some(token) = granted else {
            hold.ensure_held()?;
            return Ok(Converted::Refused(hold));
        };
        observe_released(&old);
        let waited = old.now().since(started);
        let mut converted = Self::begin(vec![claims], vec![token], 1, waited);
        // The tracing span continues.
        converted.span = std::mem::replace(&mut hold.span, Span::none());
        Ok(Converted::Done(converted))
    }
}

/// Asks until the server answers, for at most `timeout`. Returns the token of the new claim, or `None` if others hold
/// too.
async fn ask(
    old: &Arc<Part>,
    new: &Arc<Part>,
    stays_valid: bool,
    timeout: std::time::Duration,
) -> Result<Option<FencingToken>> {
    let backend = |error| Error::backend(format!("convert lock {:?}", old.name()), error);
    let mut last = None;
    let asking = async {
        let mut pauses = Pauses::new(old.number);
        loop {
            match old.requester.convert(old, new, stays_valid).await {
                Ok(Verdict::Granted(token)) => return Ok(Some(token)),
                Ok(Verdict::Busy(_)) => {
                    return match (old.validity().0, last.take()) {
                        (Validity::Ended(Ending::Released), Some(error)) => Err(backend(error)),
                        _ => Ok(None),
                    };
                }
                Ok(Verdict::More) => continue,
                Ok(Verdict::Stale) => return Err(old.lost(LossReason::Gone).into()),
                Ok(verdict) => {
                    let message = format!("unexpected answer to a conversion: {verdict:?}");
                    return Err(Error::protocol(old.name(), message));
                }
                // A renewal is still unanswered.
                Err(Failed::Forbidden(NotNow::Unanswered)) => {}
                Err(Failed::Forbidden(NotNow::OutOfOrder)) => {
                    old.ensure_valid()?;
                    return Err(Error::not_held(old.name()));
                }
                Err(Failed::Store(error)) if error.is_transient() => last = Some(error),
                Err(Failed::Store(error)) => return Err(backend(error)),
            }
            tokio::time::sleep(pauses.next()).await;
        }
    };
    match tokio::time::timeout(timeout, asking).await {
        Ok(outcome) => outcome,
        Err(_) => Err(backend(last.unwrap_or_else(|| {
            StoreError::unknown(format!("no answer within {timeout:?}"))
        }))),
    }
}
