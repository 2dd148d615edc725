//! Swapping: another claim of the same owner takes a hold's place in another mode, with nobody in between.

use std::sync::Arc;

use crate::claim::{Belief, Ending, NotNow, Verdict};
use crate::error::{Error, Result};
use crate::exchange::Failed;
use crate::hold::{Armed, Hold};
use crate::lease::LossReason;
use crate::leave::observe_released;
use crate::lock::Lock;
use crate::pause::Pauses;
use crate::protocol::FencingToken;
use crate::store::StoreError;

/// What came of a swap.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Swapped {
    /// The new claim holds.
    Done(Hold),
    /// Others hold too, and the old claim holds as before.
    Refused(Hold),
}

impl Hold {
    /// Lets a new claim by `lock`, another mode of the same name, take this one's place. If that mode excludes whatever this
    /// one does, belief in this hold may be kept until the answer; otherwise it ends before anything is sent.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if this lease has ended, here or on the server; [`Error::Backend`] if the server refused, did not
    /// answer within the client's release timeout, or answered that others hold too only after a request without answer,
    /// which may still come through; [`Error::Closed`] if the client is closed. Nothing is held then: what the server may
    /// still hold is left for in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future gives both claims up.
    pub async fn swap(self, lock: &Lock, keeps_belief: bool) -> Result<Swapped> {
        self.ensure_held()?;
        let engine = Arc::clone(&self.armed.engine);
        let started = engine.line.clock.now();
        // Closing waits for the leaves that are posted if this future is dropped: both claims are dropped before the pass, and the
        // old one, which may be believed in, before anything is sent for the new one.
        let pass = engine.enter()?;
        let mut terms = self.armed.tenure.terms;
        (terms.min_hold, terms.max_hold) = (None, None);
        let old = &self.armed.tenure;
        let new = engine.arm(lock.protocol()?, old.id.owner(), terms, Some(old));
        let (_pass, new, hold) = (pass, new, self);
        let granted = tokio::select! {
            biased;
            () = engine.closed() => return Err(Error::Closed),
            granted = hold.ask_to_swap(&new, keeps_belief) => granted?,
        };
        let Some(token) = granted else {
            hold.ensure_held()?;
            return Ok(Swapped::Refused(hold));
        };
        observe_released(&engine.line, &hold.armed.tenure);
        Ok(Swapped::Done(Self::begin(new, token, started)))
    }

    /// Asks until the server answers, for no longer than a release may take: the token of the new claim, or `None` if others
    /// hold too.
    async fn ask_to_swap(&self, new: &Armed, keeps_belief: bool) -> Result<Option<FencingToken>> {
        let Armed { tenure, engine, .. } = &self.armed;
        let backend = |error| Error::backend(format!("swap lock {:?}", self.name()), error);
        let mut last = None;
        let asking = async {
            let mut pauses = Pauses::new(tenure.number);
            loop {
                let outcome = engine.line.swap(tenure, &new.tenure, keeps_belief).await;
                match outcome {
                    Ok(Verdict::Granted(token)) => return Ok(Some(token)),
                    Ok(Verdict::Busy(_)) => {
                        let (belief, _) = tenure.belief(self.armed.engine.line.clock.now());
                        return match (belief, last.take()) {
                            (Belief::Ended(Ending::Released), Some(error)) => Err(backend(error)),
                            _ => Ok(None),
                        };
                    }
                    Ok(Verdict::More) => continue,
                    Ok(Verdict::Spent) => {
                        return Err(Error::lost(tenure.protocol.name(), LossReason::Gone));
                    }
                    Ok(verdict) => {
                        let name = self.name().to_owned();
                        let message = format!("a swap was answered by {verdict:?}");
                        return Err(Error::Protocol { name, message });
                    }
                    // A renewal is on its way.
                    Err(Failed::Forbidden(NotNow::Unanswered)) => {}
                    Err(Failed::Forbidden(NotNow::OutOfOrder)) => {
                        self.ensure_held()?;
                        return Err(Error::not_held(self.name()));
                    }
                    Err(Failed::Store(error)) if error.is_transient() => last = Some(error),
                    Err(Failed::Store(error)) => return Err(backend(error)),
                }
                tokio::time::sleep(pauses.next()).await;
            }
        };
        let timeout = engine.settings.release_timeout;
        match tokio::time::timeout(timeout, asking).await {
            Ok(outcome) => outcome,
            Err(_) => Err(backend(last.unwrap_or_else(|| {
                StoreError::unknown(format!("no answer within {timeout:?}"))
            }))),
        }
    }
}
