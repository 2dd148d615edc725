//! A grant that counts only when replicas have it.

use std::time::Duration;

use super::Acquisition;
use crate::claim::{NotNow, Verdict};
use crate::error::{Error, Result};
use crate::exchange::Failed;
use crate::hold::Hold;
use crate::pause::Pauses;
use crate::store::StoreError;

/// By how much longer each further renewal that is to be confirmed arms the lease: the least that makes a change.
const STEP: Duration = Duration::from_millis(1);

impl Acquisition {
    /// The same for a grant that so many replicas are to have. Until they do nobody has worked under it, and it keeps the name
    /// from nobody when it is given back.
    pub(crate) const fn replicated_to(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        if replicas > 0 {
            self.min_hold = self.terms.min_hold.take();
        }
        self
    }

    /// The hold, once as many replicas have it as are to have it; otherwise it is given back.
    pub(crate) async fn confirmed(&self, hold: Hold) -> Result<Hold> {
        if self.replicas == 0 {
            return Ok(hold);
        }
        let tenure = &hold.armed.tenure;
        tenure.set_pending(true);
        self.engine.renewals.add(tenure);
        let error = match self.reached(&hold).await {
            Ok(reached) if reached >= self.replicas.into() => {
                // The time may have run out meanwhile.
                hold.ensure_held()?;
                tenure.set_pending(false);
                self.engine.renewals.add(tenure);
                // Whoever closes from here on finds a hold that is somebody's.
                drop(self.engine.enter()?);
                if let Some(shortest) = self.min_hold {
                    let now = self.engine.line.clock.now();
                    tenure.change(|claim| claim.keep_for(shortest, now));
                }
                return Ok(hold);
            }
            Ok(reached) => Error::NotReplicated {
                name: self.name(),
                wanted: self.replicas,
                reached,
            },
            Err(error) => error,
        };
        tracing::debug!(%error, "given back");
        // What is not confirmed in time is left for in the background.
        let _ = tokio::time::timeout(self.terms.timeout, hold.release()).await;
        Err(error)
    }

    /// How many replicas have the grant. Asks again for a while if it gets no answer.
    async fn reached(&self, hold: &Hold) -> Result<u64> {
        let line = &self.engine.line;
        let tenure = &hold.armed.tenure;
        let until = line.clock.now().after(self.terms.timeout);
        let mut pauses = Pauses::new(self.engine.random());
        let mut extra = Duration::ZERO;
        loop {
            extra += STEP;
            let trouble = match line.confirm(tenure, self.replicas, extra).await {
                Ok((Verdict::Renewed, Ok(reached))) => return Ok(reached),
                Ok((Verdict::Renewed, Err(trouble))) => trouble,
                Ok((Verdict::Lost(reason), _)) => {
                    return Err(Error::lost(self.protocol.name(), reason));
                }
                Ok((verdict, _)) => {
                    hold.ensure_held()?;
                    let message = format!("a renewal was answered by {verdict:?}");
                    return Err(self.protocol_error(message));
                }
                // The beat that the grant has overtaken; its answer comes soon.
                Err(Failed::Forbidden(NotNow::Unanswered)) => {
                    StoreError::not_sent("another request of the claim got no answer")
                }
                Err(Failed::Forbidden(reason)) => {
                    hold.ensure_held()?;
                    let message = format!("a renewal was not allowed: {reason:?}");
                    return Err(self.protocol_error(message));
                }
                Err(Failed::Store(trouble)) => trouble,
            };
            let pause = pauses.next();
            if !trouble.is_transient() || line.clock.now().after(pause) >= until {
                return Err(self.backend("wait for the replicas of", trouble));
            }
            tracing::debug!(%trouble, ?pause, "asking for replicas again");
            tokio::time::sleep(pause).await;
        }
    }
}
