//! Passes: closing a client waits until all of them are returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts the passes in use.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    out: AtomicUsize,
    all_returned: Notify,
}

/// Permission to send requests until it is dropped.
#[derive(Debug)]
pub(crate) struct Pass(Arc<Passes>);

impl Passes {
    /// Hands out a pass.
    pub(crate) fn issue(self: &Arc<Self>) -> Pass {
        self.out.fetch_add(1, Ordering::SeqCst);
        Pass(Arc::clone(self))
    }

    /// How many are in use.
    pub(crate) fn out(&self) -> usize {
        self.out.load(Ordering::SeqCst)
    }

    /// Waits until none is in use.
    pub(crate) async fn all_returned(&self) {
        loop {
            let returned = self.all_returned.notified();
            if self.out() == 0 {
                return;
            }
            returned.await;
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.0.out.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.all_returned.notify_waiters();
        }
    }
}
