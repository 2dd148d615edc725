//! Waiting in the local queue of a cohort. The claims of a cohort belong to one client and hand a name over among
//! themselves, see [`registry::cohort`](crate::registry::cohort).

use std::pin::pin;
use std::sync::Arc;

use crate::acquire::acquisition::Acquisition;
use crate::acquire::stage::Stage;
use crate::engine::part::Part;
use crate::grant::hold::Hold;
use crate::registry::cohort::Patience;
use crate::seam::clock::sleep_until;
use crate::words::token::FencingToken;

/// A claim in the local queue. Dropping this removes it.
struct LocalWaiter<'a>(&'a Arc<Part>);

impl<'a> LocalWaiter<'a> {
    /// Joins the queue behind other claims of its cohort; `None` if there are none.
    fn behind_others(part: &'a Arc<Part>) -> Option<Self> {
        part.requester.claims.arrive(part).then(|| {
            part.change(|claim| claim.wait_locally(true));
            Self(part)
        })
    }
}

impl LocalWaiter<'_> {
    /// Waits until the name is handed over; `None` if the claim must ask the server itself.
    async fn granted(&self) -> Option<FencingToken> {
        let part = self.0;
        let lasts = part.terms.waiter_ttl;
        let until = part.now().after(lasts);
        loop {
            let mut changed = pin!(part.changed().notified());
            changed.as_mut().enable();
            let now = part.now();
            // This must come before `take`: once a claim may ask, the outcome of its handover is known.
            let patience = Patience { lasts, until };
            let again = part.requester.claims.may_ask(part, patience, now);
            let token = part.change(|claim| claim.take(now));
            let (Some(again), None) = (again, token) else {
                return token;
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(&part.requester.clock, again) => {}
            }
        }
    }
}

impl Drop for LocalWaiter<'_> {
    fn drop(&mut self) {
        self.0.requester.claims.give_up(self.0);
        self.0.change(|claim| claim.wait_locally(false));
    }
}

impl Acquisition {
    /// Waits in the local queue of the cohort, for at most one waiter ttl, if other claims of it ask, wait or hold.
    /// Returns a hold if one of them hands the name over to this claim, or `None` if it must ask the server itself.
    pub(super) async fn in_local_queue(&mut self, stage: &Stage, told: &mut bool) -> Option<Hold> {
        // To confirm replicas, or to see whether the queue is full, the claim must send its own request.
        let terms = &stage.first().terms;
        if !terms.in_cohort || self.replicas > 0 || terms.queue_limit.is_some() {
            return None;
        }
        let part = self.only_claim(stage)?;
        let waiter = LocalWaiter::behind_others(&part)?;
        self.tell_waiting(stage, told);
        // Boxed, so that an acquisition that finds the name free is not larger because of this future.
        let token = Box::pin(waiter.granted()).await;
        drop(waiter);
        match token {
            Some(token) => {
                let claims = std::mem::take(&mut self.claims);
                Some(Hold::begin(claims, vec![token], 1, self.waited()))
            }
            None => {
                if part.predecessor().is_some() {
                    // A failed handover named this claim, and may still be executed.
                    self.drop_claims();
                }
                None
            }
        }
    }
}
