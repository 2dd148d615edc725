//! Watching a name without holding it or waiting for it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::engine::Engine;
use crate::engine::subscriptions::presence::Subscription;
use crate::seam::clock::sleep_until;
use crate::words::error::{Error, Result};

/// Reports changes to a name. It is subscribed to the name's channel until it is dropped.
pub struct Watch {
    engine: Arc<Engine>,
    messages: watch::Receiver<()>,
    _subscription: Subscription,
}

impl Watch {
    pub(crate) fn new(engine: &Arc<Engine>, channel: &str) -> Result<Self> {
        drop(engine.enter()?);
        let (subscription, messages) = engine.subscriptions.watch(channel);
        Ok(Self {
            engine: Arc::clone(engine),
            messages,
            _subscription: subscription,
        })
    }

    /// Resolves when the state of the name may have changed: since the last call a message has arrived, or may have been
    /// missed. Without a message it resolves after a third of the waiter ttl, the time between two heartbeats of a
    /// waiter.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a reason that this call did not report is reported by the next.
    pub async fn changed(&mut self) -> Result<()> {
        let (engine, messages) = (&self.engine, &mut self.messages);
        let clock = &engine.requester.clock;
        let heartbeat = clock.now().after(engine.settings.waiter_ttl / 3);
        let told = async {
            if messages.changed().await.is_err() {
                // No more messages can arrive; only the timer is left.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = engine.closed() => Err(Error::Closed),
            () = told => Ok(()),
            () = sleep_until(clock, heartbeat) => Ok(()),
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
