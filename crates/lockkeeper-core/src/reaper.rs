//! The reaper: leaves for claims that were given up without waiting for the answer, such as a guard that was dropped.
//!
//! It tries for one ttl, then the claim has ended by itself.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::clock::Moment;
use crate::error::Error;
use crate::exchange::Line;
use crate::leave::{self, Attempt};
use crate::notify::Hub;
use crate::pause::Pauses;
use crate::tenure::Tenure;

/// How many first attempts are on their way at once; more would only wait in the client library.
const ABREAST: usize = 256;

/// How many repeated attempts are on their way at once: those that a dead server keeps waiting do not keep others.
const REPEATED_ABREAST: usize = 64;

/// Where given-up claims are posted. Posting never waits.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    inbox: mpsc::UnboundedSender<Post>,
    counts: Arc<Counts>,
}

/// A claim to leave for, and until when that is of use.
type Post = (Arc<Tenure>, Moment);

/// What has become of the posted claims.
#[derive(Debug, Default)]
struct Counts {
    tally: Mutex<Tally>,
    settled: Notify,
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    /// Posted and not yet settled.
    open: usize,
    left: usize,
    unconfirmed: usize,
}

impl Handle {
    /// A handle and the future that does the work until every handle is gone and every claim is settled. Dropping the
    /// future gives up what is open.
    pub(crate) fn new(line: Arc<Line>, hub: Arc<Hub>) -> (Self, impl Future<Output = ()>) {
        let (inbox, posts) = mpsc::unbounded_channel();
        let counts = Arc::<Counts>::default();
        let work = run(line, hub, posts, Working(Arc::clone(&counts)));
        (Self { inbox, counts }, work)
    }

    /// Leaves for a claim, some time soon. Its belief must have ended.
    pub(crate) fn post(&self, line: &Line, tenure: Arc<Tenure>) {
        let until = leave::of_use_until(line, &tenure);
        self.counts.change(|tally| tally.open += 1);
        if self.inbox.send((tenure, until)).is_err() {
            // The task has ended; the claim ends by its ttl.
            self.counts.settle(false);
        }
    }

    /// Waits until nothing is open.
    pub(crate) async fn drained(&self) {
        loop {
            let settled = self.counts.settled.notified();
            if self.counts.change(|tally| tally.open) == 0 {
                return;
            }
            settled.await;
        }
    }

    /// How many claims the server has confirmed to be gone, and how many it has not.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let tally = self.counts.change(|tally| *tally);
        (tally.left, tally.unconfirmed + tally.open)
    }
}

impl Counts {
    fn change<T>(&self, f: impl FnOnce(&mut Tally) -> T) -> T {
        f(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn settle(&self, left: bool) {
        let open = self.change(|tally| {
            tally.open = tally.open.saturating_sub(1);
            *if left {
                &mut tally.left
            } else {
                &mut tally.unconfirmed
            } += 1;
            tally.open
        });
        if open == 0 {
            self.settled.notify_waiters();
        }
    }
}

/// The task's part of the counts: when it ends, nothing is open any more, however it ended.
struct Working(Arc<Counts>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0
            .change(|tally| tally.unconfirmed += std::mem::take(&mut tally.open));
        self.0.settled.notify_waiters();
    }
}

async fn run(
    line: Arc<Line>,
    hub: Arc<Hub>,
    mut posts: mpsc::UnboundedReceiver<Post>,
    working: Working,
) {
    let bounds = (Semaphore::new(ABREAST), Semaphore::new(REPEATED_ABREAST));
    let mut leaves = FuturesUnordered::new();
    let mut open = true;
    while open || !leaves.is_empty() {
        tokio::select! {
            biased;
            Some(left) = leaves.next() => working.0.settle(left),
            post = posts.recv(), if open => match post {
                Some((tenure, until)) => leaves.push(leave(&line, &hub, tenure, until, &bounds)),
                None => open = false,
            },
        }
    }
}

/// Leaves until answered or until it is of no use any more; whether the server has confirmed.
async fn leave(
    line: &Line,
    hub: &Hub,
    tenure: Arc<Tenure>,
    until: Moment,
    (first, repeated): &(Semaphore, Semaphore),
) -> bool {
    let mut pauses = Pauses::new(tenure.number);
    let mut bound = first;
    loop {
        let attempt = {
            // An error means that the semaphore is closed, which nobody does.
            let _permit = bound.acquire().await;
            leave::attempt(line, hub, &tenure).await
        };
        let (name, claim) = (tenure.protocol.name().as_str(), &tenure.id);
        match attempt {
            Attempt::Final(Ok(_) | Err(Error::Lost { .. })) => return true,
            Attempt::Final(Err(error)) => {
                tracing::warn!(name, %claim, %error, "cannot leave; the claim ends with its ttl");
                return false;
            }
            Attempt::Again(error) if line.clock.now() >= until => {
                tracing::warn!(name, %claim, %error, "never left; the claim has ended with its ttl");
                return false;
            }
            Attempt::Again(_) => tokio::time::sleep(pauses.next()).await,
        }
        bound = repeated;
    }
}
