//! A switch that is thrown once, for all who wait for it.
//!
//! Tokio's `watch` would do, but it spreads its waiters over several lists by chance, and then nobody knows in which order
//! they wake. Here they wake in the order in which they began to wait, so that a run with the same seed is the same run.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    thrown: AtomicBool,
    bell: Notify,
}

impl Switch {
    /// Throws it; doing so twice changes nothing.
    pub(crate) fn throw(&self) {
        self.thrown.store(true, Ordering::SeqCst);
        self.bell.notify_waiters();
    }

    pub(crate) fn is_thrown(&self) -> bool {
        self.thrown.load(Ordering::SeqCst)
    }

    /// Resolves when it is thrown, also if it was before.
    pub(crate) async fn thrown(&self) {
        // Heard from now on, so nothing is missed between the look and the wait.
        let bell = self.bell.notified();
        if !self.is_thrown() {
            bell.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn all_who_wait_wake_in_the_order_in_which_they_came() {
        let (switch, woken) = (Arc::<Switch>::default(), Arc::<Mutex<Vec<_>>>::default());
        let waiting: Vec<_> = (0..20)
            .map(|number| {
                let (switch, woken) = (Arc::clone(&switch), Arc::clone(&woken));
                tokio::spawn(async move {
                    switch.thrown().await;
                    woken.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        switch.throw();
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*woken.lock().unwrap(), (0..20).collect::<Vec<_>>());
        switch.thrown().await;
    }
}
