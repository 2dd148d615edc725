//! The reaper: leaves for claims that were given up without waiting for the answer, such as a guard that was dropped.
//!
//! It tries for one ttl, then the claim has ended by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, mpsc};

use crate::claim::Verdict;
use crate::exchange::{Failed, Line, Tenure};
use crate::pause::Pauses;
use crate::protocol::Verb;

/// How many leaves are on their way at once; more would only wait in the client library.
const ABREAST: usize = 256;

/// Where given-up claims are posted. Posting never waits.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    inbox: mpsc::UnboundedSender<Arc<Tenure>>,
    counts: Arc<Counts>,
}

/// What has become of the posted claims.
#[derive(Debug, Default)]
struct Counts {
    /// Posted and not yet settled.
    open: AtomicUsize,
    left: AtomicUsize,
    unanswered: AtomicUsize,
    settled: Notify,
}

impl Handle {
    /// A handle and the future that does the work until every handle is gone and every claim is settled.
    pub(crate) fn new(line: Arc<Line>) -> (Self, impl Future<Output = ()>) {
        let (inbox, posts) = mpsc::unbounded_channel();
        let counts = Arc::<Counts>::default();
        (
            Self {
                inbox,
                counts: Arc::clone(&counts),
            },
            run(line, posts, counts),
        )
    }

    /// Leaves for a claim, some time soon. Its belief must have ended.
    pub(crate) fn post(&self, tenure: Arc<Tenure>) {
        self.counts.open.fetch_add(1, Ordering::SeqCst);
        if self.inbox.send(tenure).is_err() {
            // The runtime is gone and the task with it; the claim ends by its ttl.
            self.counts.settle(false);
        }
    }

    /// Waits until nothing is open.
    pub(crate) async fn drained(&self) {
        loop {
            let settled = self.counts.settled.notified();
            if self.counts.open.load(Ordering::SeqCst) == 0 {
                return;
            }
            settled.await;
        }
    }

    /// How many claims have left, and how many never got an answer or still wait for one.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (
            count(&self.counts.left),
            count(&self.counts.unanswered) + count(&self.counts.open),
        )
    }
}

impl Counts {
    fn settle(&self, left: bool) {
        let counter = if left { &self.left } else { &self.unanswered };
        counter.fetch_add(1, Ordering::SeqCst);
        if self.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.settled.notify_waiters();
        }
    }
}

async fn run(
    line: Arc<Line>,
    mut posts: mpsc::UnboundedReceiver<Arc<Tenure>>,
    counts: Arc<Counts>,
) {
    let mut leaves = FuturesUnordered::new();
    let mut open = true;
    while open || !leaves.is_empty() {
        tokio::select! {
            biased;
            Some(left) = leaves.next() => counts.settle(left),
            post = posts.recv(), if open && leaves.len() < ABREAST => match post {
                Some(tenure) => leaves.push(leave(&line, tenure)),
                None => open = false,
            },
        }
    }
}

/// Leaves until answered or until the claim has ended by itself; whether it was answered.
async fn leave(line: &Line, tenure: Arc<Tenure>) -> bool {
    let until = line.clock.now().after(tenure.terms.ttl);
    let mut pauses = Pauses::new(tenure.number);
    loop {
        let error = match line.exchange(&tenure, Verb::Leave).await {
            Ok(Verdict::Left { .. } | Verdict::WasGone) => {
                tracing::debug!(name = %tenure.protocol.name(), claim = %tenure.id, "left");
                return true;
            }
            Ok(verdict) => format!("unexpected answer {verdict:?}"),
            Err(Failed::Store(error)) if error.is_transient() => error.to_string(),
            Err(Failed::Store(error)) => {
                tracing::warn!(name = %tenure.protocol.name(), claim = %tenure.id, %error, "cannot leave; the claim ends with its ttl");
                return false;
            }
            Err(Failed::Forbidden(reason)) => format!("{reason:?}"),
        };
        if line.clock.now() >= until {
            tracing::warn!(name = %tenure.protocol.name(), claim = %tenure.id, error, "never left; the claim has ended with its ttl");
            return false;
        }
        tokio::time::sleep(pauses.next()).await;
    }
}
