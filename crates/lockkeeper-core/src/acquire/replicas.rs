//! A grant that counts only when enough replicas have it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use crate::acquire::acquisition::Acquisition;
use crate::claim::{NotNow, Verdict};
use crate::engine::part::Part;
use crate::engine::requester::Failed;
use crate::grant::hold::Hold;
use crate::schedule::pause::Pauses;
use crate::words::error::{Error, Result};
use crate::words::store_error::StoreError;

/// How much longer each further renewal makes the lease, so that there is a change for replicas to confirm: the
/// smallest possible.
const STEP: Duration = Duration::from_millis(1);

impl Acquisition {
    /// Returns the hold once enough replicas of each server have it; otherwise releases it. No work has run under it by
    /// then, so this release starts no cooldown.
    pub(super) async fn confirmed(&self, hold: Hold) -> Result<Hold> {
        match self.replicas {
            0 => Ok(hold),
            // Boxed, so that an acquisition without replicas is not larger because of this future.
            _ => Box::pin(self.confirmed_by_replicas(hold)).await,
        }
    }

    async fn confirmed_by_replicas(&self, hold: Hold) -> Result<Hold> {
        let parts = || hold.parts_and_engines();
        for (part, _) in parts() {
            part.change(|claim| claim.set_confirmed(false));
        }
        let confirmed = try_join_all(parts().map(|(part, _)| self.reached(part))).await;
        let Err(error) = confirmed else {
            // The time may have run out meanwhile.
            hold.ensure_held()?;
            for (part, engine) in parts() {
                part.change(|claim| claim.set_confirmed(true));
                // From here on, closing the client finds a hold that has a holder.
                drop(engine.enter()?);
                if let Some(shortest) = self.min_hold {
                    part.change(|claim| claim.cool_down_for(shortest, part.now()));
                }
            }
            return Ok(hold);
        };
        tracing::debug!(%error, "released again: too few replicas confirmed the grant");
        // A release that is not confirmed in time continues in the background.
        let timeout = self.stage().first().terms.timeout;
        let _ = tokio::time::timeout(timeout, hold.release()).await;
        Err(error)
    }

    /// Waits until enough replicas have the part. If there is no answer, it asks again for up to one request timeout.
    async fn reached(&self, part: &Arc<Part>) -> Result<()> {
        let name = || part.name().to_owned();
        let failed = |error| {
            let context = format!("wait for the replicas of lock {:?}", part.name());
            Error::backend(context, error)
        };
        let requester = &part.requester;
        let until = part.now().after(part.terms.timeout);
        let mut pauses = Pauses::new(part.number);
        let mut extra = Duration::ZERO;
        loop {
            extra += STEP;
            let trouble = match requester.confirm(part, self.replicas, extra).await {
                Ok((Verdict::Renewed, Ok(reached))) if reached >= self.replicas.into() => {
                    return Ok(());
                }
                Ok((Verdict::Renewed, Ok(reached))) => {
                    return Err(Error::NotReplicated {
                        name: name(),
                        wanted: self.replicas,
                        reached,
                    });
                }
                Ok((Verdict::Renewed, Err(trouble))) => trouble,
                // The name was inflated meanwhile, and the claim now knows it.
                Ok((Verdict::More, _)) => continue,
                Ok((Verdict::Lost(reason), _)) => return Err(part.lost(reason).into()),
                Ok((verdict, _)) => {
                    part.ensure_valid()?;
                    let message = format!("unexpected answer to a renewal: {verdict:?}");
                    return Err(Error::protocol(name(), message));
                }
                // The grant came by message, and an earlier heartbeat has no answer yet; its answer comes soon.
                Err(Failed::Forbidden(NotNow::Unanswered)) => {
                    StoreError::not_sent("another request of the claim got no answer")
                }
                Err(Failed::Forbidden(reason)) => {
                    part.ensure_valid()?;
                    let message = format!("the claim may not be renewed now: {reason:?}");
                    return Err(Error::protocol(name(), message));
                }
                Err(Failed::Store(trouble)) => trouble,
            };
            let pause = pauses.next();
            if !trouble.is_transient() || part.now().after(pause) >= until {
                return Err(failed(trouble));
            }
            tracing::debug!(%trouble, ?pause, "asking for replicas again");
            tokio::time::sleep(pause).await;
        }
    }
}
