//! Acquisition by a kind with a queue: the claim stands in it on the server, beats, and is told when it is granted.

use std::pin::pin;
use std::sync::Arc;

use super::{Acquisition, Found};
use crate::claim::Belief;
use crate::clock::sleep_until;
use crate::error::Result;
use crate::hold::Hold;
use crate::notify::presence::Ear;
use crate::store::StoreError;

impl Acquisition {
    /// Asks once, and stands in the queue until granted. A claim that has lost its place, because the server has not heard
    /// of it for too long or has lost its data, is followed by a new one at the end of the queue.
    pub(super) async fn queue_up(&mut self) -> Result<Hold> {
        let engine = Arc::clone(&self.engine);
        let channel = format!("{}:{}", self.protocol.channel(), self.owner.client());
        let mut told = false;
        loop {
            if self
                .terms
                .wait_until
                .is_some_and(|end| engine.line.clock.now() >= end)
            {
                // The caller, who bounds the wait, says so.
                std::future::pending::<()>().await;
            }
            // Where this client hears of grants anyhow, that of this claim may overtake the answer that says to wait for it.
            let ear = engine.hub.keep_hearing(&channel);
            if ear.is_some() {
                let armed = self.armed.take().unwrap_or_else(|| self.arm());
                engine.renewals.expect(&self.armed.insert(armed).tenure);
            }
            match self.look(None).await? {
                Found::Granted(hold) => return Ok(hold),
                Found::Waiting => {}
                Found::Busy(_) => {
                    let message = "a kind with a queue is busy for one that waits".to_owned();
                    return Err(self.protocol_error(message));
                }
            }
            if !std::mem::replace(&mut told, true) {
                self.waits();
            }
            if let Some(hold) = self.in_queue(&channel, ear).await? {
                return Ok(hold);
            }
        }
    }

    /// Waits for the grant of the claim that stands in the queue; `None` if it has lost its place. With an `ear` from before
    /// it was put there no message can have been missed.
    async fn in_queue(&mut self, channel: &str, ear: Option<Ear>) -> Result<Option<Hold>> {
        let engine = Arc::clone(&self.engine);
        let Some(tenure) = self.armed.as_ref().map(|armed| Arc::clone(&armed.tenure)) else {
            return Ok(None);
        };
        let mut missed = ear.is_none();
        let (_ear, opening) = match ear {
            Some(ear) => (ear, Arc::default()),
            None => engine.hub.begin_hearing(channel),
        };
        engine.renewals.wait(&tenure);
        loop {
            let (mut moved, mut opened) =
                (pin!(tenure.bell().notified()), pin!(opening.notified()));
            moved.as_mut().enable();
            opened.as_mut().enable();
            if missed && engine.hub.hears(channel) && !mutant!(NoBeatAfterSubscribing) {
                // What happened between the answer and the subscription was told to nobody.
                engine.renewals.hurry(&tenure);
                missed = false;
            }
            let now = engine.line.clock.now();
            let (token, belief, heard_at) = tenure.take(now);
            match (belief, token) {
                (_, Some(token)) => {
                    let armed = self.armed.take();
                    return Ok(armed.map(|armed| Hold::begin(armed, token, self.started)));
                }
                (Belief::None, _) => {}
                _ => {
                    // Dropped, and so left for.
                    self.armed = None;
                    return Ok(None);
                }
            }
            let patience = heard_at
                .unwrap_or(self.started)
                .after(self.patience.max(self.terms.waiter_ttl));
            if now >= patience {
                let silence = "no beat was answered for too long";
                return Err(self.backend("wait for", StoreError::unknown(silence)));
            }
            tokio::select! {
                biased;
                () = moved => {}
                () = opened, if missed => {}
                () = sleep_until(&engine.line.clock, patience) => {}
            }
        }
    }
}
