//! Waiting in a queue on the server. The claim stands in the queue and sends heartbeats, and a message announces its
//! grant. In a queue of another library, the message announces its turn, and a heartbeat then grants.
//!
//! 1. The acquire answers that the claim waits. If this client already receives the name's grant messages, because other
//!    claims of it wait, such a message may overtake that answer: the claim stores it until then.
//! 2. Otherwise the client subscribes, and the claim sends one heartbeat as soon as the server has confirmed, for any
//!    message in between.
//! 3. A heartbeat is due every third of the waiter ttl, in batches with others. The first waiter also knows when the
//!    holder's lease ends, and sends one 1 ms later if that is sooner, because a lease that expires sends no message.
//! 4. The holder's release, or any other script that advances the queue, grants to the first claim that is alive. The
//!    message names the claim, its token and its last executed request, from whose *send* the deadline counts: the
//!    waiter ttl less the margin. If too little of that is left, the claim sends a heartbeat and goes by the answer.
//!    The first renewal gives the lease its own ttl.
//! 5. If the message is lost, the next heartbeat answers that the claim holds.
//! 6. If a heartbeat answers that the claim is gone, it has lost its place, and a new claim joins at the end.
//! 7. A claim that stops waiting is released like a holder's, which advances the queue.

use std::fmt::Write as _;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::acquire::acquisition::Acquisition;
use crate::acquire::stage::Stage;
use crate::claim::{Claim, Validity};
use crate::engine::subscriptions::presence::Subscription;
use crate::grant::hold::Hold;
use crate::seam::clock::sleep_until;
use crate::words::error::Result;
use crate::words::store_error::StoreError;

impl Stage {
    /// The channel on which another library's queue announces a waiter's turn; `None` for a queue that grants.
    fn turns(&self) -> Option<String> {
        let spec = self.first();
        spec.protocol.queue()?.turns(spec.owner)
    }

    /// The channel on which this client is notified of grants of its claims.
    fn grants(&self) -> String {
        let spec = self.first();
        let mut channel = String::with_capacity(spec.protocol.name().main().len() + 64);
        // Writing to a string cannot fail.
        let _ = write!(
            channel,
            "{}:{}",
            spec.protocol.channel_key(),
            spec.owner.client()
        );
        channel
    }
}

impl Acquisition {
    /// Keeps this client's subscription to grants of the name, if it already has one. Call this before a claim joins the
    /// queue: the message of its grant may arrive before the reply that says to wait.
    pub(super) fn expect_grant(stage: &Stage) -> Option<Subscription> {
        if !stage.queues() || stage.turns().is_some() {
            return None;
        }
        let engine = &stage.first().engine;
        engine.subscriptions.keep_hearing(&stage.grants())
    }

    /// Waits for the grant of the claim that stands in the queue. Returns `None` if the claim has lost its place,
    /// because its heartbeats did not arrive for too long or the server lost its data: then a new claim joins at the end
    /// of the queue. If the `subscription` began before the claim joined, no message can have been missed.
    pub(super) async fn in_queue(
        &mut self,
        stage: &Stage,
        subscription: Option<Subscription>,
    ) -> Result<Option<Hold>> {
        let engine = Arc::clone(&stage.first().engine);
        let turns = stage.turns();
        let (_watch, mut turn) = match &turns {
            Some(channel) => Some(engine.subscriptions.watch(channel)).unzip(),
            None => (None, None),
        };
        let channel = turns.unwrap_or_else(|| stage.grants());
        let Some(part) = self.only_claim(stage) else {
            return Ok(None);
        };
        engine.subscriptions.annotate(&part);
        let mut missed = subscription.is_none();
        let (_subscription, opening) = match subscription {
            Some(subscription) => (subscription, Arc::default()),
            None => engine.subscriptions.begin_hearing(&channel),
        };
        loop {
            let (mut changed, mut opened) =
                (pin!(part.changed().notified()), pin!(opening.notified()));
            changed.as_mut().enable();
            opened.as_mut().enable();
            if missed && engine.subscriptions.hears(&channel) {
                if let Some(turn) = &mut turn {
                    turn.mark_unchanged();
                }
                let now = part.now();
                part.change(|claim| claim.subscribed(now));
                missed = false;
            }
            if missed && let Some(refusal) = engine.subscriptions.refusal(&channel) {
                return Err(stage.backend(0, "wait for", refusal));
            }
            let now = part.now();
            let take = |claim: &mut Claim| (claim.take(now), claim.validity(now), claim.heard());
            let (token, validity, heard_at) = part.change(take);
            match (validity, token) {
                (_, Some(token)) => {
                    let claims = std::mem::take(&mut self.claims);
                    return Ok(Some(Hold::begin(claims, vec![token], 1, self.waited())));
                }
                (Validity::NotYet, _) => {}
                _ => {
                    // Dropped, and so released.
                    self.drop_claims();
                    return Ok(None);
                }
            }
            let patience = heard_at
                .unwrap_or(self.stage_began)
                .after(stage.patience.max(part.terms.waiter_ttl));
            if now >= patience {
                let silence = "no heartbeat was answered for too long";
                return Err(stage.backend(0, "wait for", StoreError::unknown(silence)));
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = opened, if missed => {}
                () = told(turn.as_mut()) => {
                    let now = part.now();
                    part.change(|claim| claim.hurry(now));
                }
                () = sleep_until(&part.requester.clock, patience) => {}
            }
        }
    }
}

/// Resolves when a message says that the turn may have come; never for a queue that grants. Boxed, so that a wait in
/// such a queue needs no memory for it.
fn told(turn: Option<&mut watch::Receiver<()>>) -> BoxFuture<'_, ()> {
    let Some(turn) = turn else {
        return pending().boxed();
    };
    let heard = async move {
        if turn.changed().await.is_err() {
            pending::<()>().await;
        }
    };
    heard.boxed()
}
