//! The background releaser: releases claims when no caller waits for the release, for example after a guard was
//! dropped.
//!
//! It tries for one ttl. After that, the claim has expired on the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, mpsc};

use crate::engine::posts::{Counts, Open, Post, Posts};
use crate::engine::release::{Attempt, attempt_all};
use crate::engine::requester::Requester;
use crate::engine::subscriptions::Subscriptions;
use crate::schedule::pause::Pauses;
use crate::words::error::Error;
use crate::words::moment::Moment;

/// How many first attempts may be unanswered on one server at once. More would only queue in the client library.
const ABREAST: usize = 256;

/// How many repeated attempts may be unanswered on one server at once, so that attempts that hang on a dead server do
/// not delay the others.
const REPEATED_ABREAST: usize = 64;

/// Limits the unanswered attempts on one server.
#[derive(Debug)]
struct Bounds {
    first: Semaphore,
    repeated: Semaphore,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            first: Semaphore::new(ABREAST),
            repeated: Semaphore::new(REPEATED_ABREAST),
        }
    }
}

/// The counts while the task runs. When the task ends, for whatever reason, nothing counts as open any more.
struct Working(Arc<Counts>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0
            .change(|tally| tally.unconfirmed += std::mem::take(&mut tally.open));
        self.0.settled.notify_waiters();
    }
}

impl Posts {
    /// Releases everything that is posted, until every handle is gone and every claim is settled. Dropping the future
    /// abandons what is open.
    pub(crate) fn release_all(
        self,
        requester: Arc<Requester>,
        subscriptions: Arc<Subscriptions>,
    ) -> impl Future<Output = ()> {
        let working = Working(self.counts);
        run(requester, subscriptions, self.inbox, working)
    }
}

async fn run(
    requester: Arc<Requester>,
    subscriptions: Arc<Subscriptions>,
    mut posts: mpsc::UnboundedReceiver<Post>,
    working: Working,
) {
    let mut bounds: BTreeMap<u32, Arc<Bounds>> = BTreeMap::new();
    let mut releases = FuturesUnordered::new();
    let mut open = true;
    while open || !releases.is_empty() {
        tokio::select! {
            biased;
            Some((left, unconfirmed)) = releases.next() => working.0.settle(left, unconfirmed),
            post = posts.recv(), if open => match post {
                Some(Post { open, until, departure }) => {
                    // Servers come and go. Once no release is open, all of them are forgotten.
                    if releases.is_empty() {
                        bounds.clear();
                    }
                    let server = open.0.first().map_or(0, |part| {
                        let main = part.protocol.name().main();
                        requester.store.server_of(requester.store.group(main))
                    });
                    let bounds = Arc::clone(bounds.entry(server).or_default());
                    let (requester, subscriptions) = (&requester, &subscriptions);
                    releases.push(async move {
                        let counts = release(requester, subscriptions, open, until, bounds).await;
                        drop(departure);
                        counts
                    });
                }
                None => open = false,
            },
        }
    }
}

/// Repeats releases until the server answers or repeating is pointless. Returns how many releases the server has
/// confirmed, and how many not.
async fn release(
    requester: &Requester,
    subscriptions: &Subscriptions,
    mut open: Open,
    until: Moment,
    bounds: Arc<Bounds>,
) -> (usize, usize) {
    let mut pauses = Pauses::new(open.0.first().map_or(0, |part| part.number));
    let (mut left, mut unconfirmed) = (0, 0);
    let mut bound = &bounds.first;
    loop {
        let attempts = {
            // An error means that the semaphore was closed, which never happens.
            let _permit = bound.acquire().await;
            attempt_all(subscriptions, &open.0).await
        };
        let (mut again, mut given_up) = (Open::default(), Open::default());
        for (part, attempt) in std::mem::take(&mut open.0).into_iter().zip(attempts) {
            let (name, claim) = (part.protocol.name().as_str(), &part.id);
            match attempt {
                Attempt::Final(Ok(_) | Err(Error::Lost { .. })) => left += 1,
                Attempt::Final(Err(error)) => {
                    tracing::warn!(name, %claim, %error, "could not release; the claim ends with its ttl");
                    unconfirmed += 1;
                    given_up.0.push(part);
                }
                Attempt::Again(error) if requester.clock.now() >= until => {
                    tracing::warn!(name, %claim, %error, "the release was never confirmed; the claim has ended with its ttl");
                    unconfirmed += 1;
                    given_up.0.push(part);
                }
                Attempt::Again(_) => again.0.push(part),
            }
        }
        open = again;
        if open.0.is_empty() {
            return (left, unconfirmed);
        }
        tokio::time::sleep(pauses.next()).await;
        bound = &bounds.repeated;
    }
}
