//! Many requests in one write. When a task queues a request, a runtime with several threads runs the task that writes next, before other tasks
//! that are ready to queue theirs. So each request would cost a write. While many requests are unanswered, the task that writes
//! lets those tasks run first; with few, another thread would wake up to write, which takes longer than it saves.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// From this many unanswered requests on, the task that writes gives way: see decision 0034.
pub(super) const MANY: usize = 32;

/// How many requests of a connection are unanswered.
#[derive(Debug, Default, Clone)]
pub(super) struct Unanswered(Arc<AtomicUsize>);

/// A request that is unanswered until this is dropped.
pub(super) struct One<'a>(&'a Unanswered);

impl Unanswered {
    pub(super) fn one(&self) -> One<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        One(self)
    }

    fn are_many(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= MANY
    }
}

impl Drop for One<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs the task that writes.
pub(super) async fn write<T>(task: impl Future<Output = T>, unanswered: Unanswered) -> T {
    let (mut task, mut gave_way) = (pin!(task), false);
    poll_fn(|context| {
        gave_way = !gave_way && unanswered.are_many();
        if gave_way {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        task.as_mut().poll(context)
    })
    .await
}
