//! A switch that is set once and wakes all its waiters.
//!
//! Tokio's `watch` would do, but it spreads its waiters randomly over several lists, so the order in which they wake is
//! unknown. Here they wake in the order in which they began to wait, so that a run with a given seed can be repeated. A
//! `CancellationToken` of tokio-util keeps that order, but locks a mutex whenever it is looked at, and all acquisitions
//! of a client look at the same one.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    thrown: AtomicBool,
    changed: Notify,
}

impl Switch {
    /// Sets it; setting it twice changes nothing.
    pub(crate) fn throw(&self) {
        self.thrown.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    pub(crate) fn is_thrown(&self) -> bool {
        self.thrown.load(Ordering::SeqCst)
    }

    /// Resolves when it is set, even if that was before.
    pub(crate) async fn thrown(&self) {
        // Registered before the check, so nothing is missed between the check and the wait.
        let changed = self.changed.notified();
        if !self.is_thrown() {
            changed.await;
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
