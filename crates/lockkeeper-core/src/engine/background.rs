//! The releaser: leaves for claims that were given up without waiting for the answer, such as a guard that was dropped.
//!
//! It tries for one ttl, then the claim has ended by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::engine::part::Part;
use crate::engine::release as leave;
use crate::engine::release::Attempt;
use crate::engine::requester::Requester;
use crate::engine::subscriptions::Subscriptions;
use crate::engine::switch::Switch;
use crate::schedule::pause::Pauses;
use crate::words::error::Error;
use crate::words::moment::Moment;
use crate::words::name::Name;

/// How many first attempts are on their way to one server at once; more would only wait in the client library.
const ABREAST: usize = 256;

/// How many repeated attempts are on their way to one server at once: those that it keeps waiting while it is dead do not
/// keep others.
const REPEATED_ABREAST: usize = 64;

/// Bounds what is on its way to one server.
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

/// Where given-up claims are posted. Posting never waits.
#[derive(Debug, Clone)]
pub(crate) struct Releaser {
    inbox: mpsc::UnboundedSender<Post>,
    counts: Arc<Counts>,
    departing: Arc<Mutex<Departing>>,
}

/// What has been posted, for the task that leaves for it.
pub(crate) struct Posts {
    inbox: mpsc::UnboundedReceiver<Post>,
    counts: Arc<Counts>,
}

/// Claims to leave for, by one script if there are several.
#[derive(Debug)]
struct Post {
    parts: Vec<Arc<Part>>,
    /// Until when that is of use.
    until: Moment,
    departure: Departure,
}

/// The names that are being left: for each, what is thrown when a posted leave is settled, by the number of the post.
#[derive(Debug, Default)]
struct Departing {
    posts: u64,
    names: BTreeMap<Box<str>, BTreeMap<u64, Arc<Switch>>>,
}

/// One post on its way. Dropped, it has left, or is given up.
#[derive(Debug)]
struct Departure {
    post: u64,
    names: Vec<Box<str>>,
    left: Arc<Switch>,
    departing: Arc<Mutex<Departing>>,
}

impl Departure {
    fn begin(departing: &Arc<Mutex<Departing>>, parts: &[Arc<Part>]) -> Self {
        let names = parts.iter().map(|it| it.protocol.name().main().into());
        let names: Vec<Box<str>> = names.collect();
        let left = Arc::<Switch>::default();
        let mut open = lock(departing);
        open.posts += 1;
        let post = open.posts;
        for name in &names {
            let of_name = open.names.entry(name.clone()).or_default();
            of_name.insert(post, Arc::clone(&left));
        }
        Self {
            post,
            names,
            left,
            departing: Arc::clone(departing),
        }
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        let mut open = lock(&self.departing);
        for name in &self.names {
            if let Some(of_name) = open.names.get_mut(name) {
                of_name.remove(&self.post);
                if of_name.is_empty() {
                    open.names.remove(name);
                }
            }
        }
        drop(open);
        self.left.throw();
    }
}

fn lock(departing: &Mutex<Departing>) -> MutexGuard<'_, Departing> {
    departing.lock().unwrap_or_else(PoisonError::into_inner)
}

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

impl Releaser {
    /// A handle, and where what is posted comes out.
    pub(crate) fn new() -> (Self, Posts) {
        let (inbox, posts) = mpsc::unbounded_channel();
        let counts = Arc::<Counts>::default();
        let posts = Posts {
            inbox: posts,
            counts: Arc::clone(&counts),
        };
        let departing = Arc::default();
        let handle = Self {
            inbox,
            counts,
            departing,
        };
        (handle, posts)
    }

    /// The number of the last post if any of these names is being left.
    pub(crate) fn departing(&self, names: &[&Name]) -> Option<u64> {
        let open = lock(&self.departing);
        let is_left = |name: &&Name| open.names.contains_key(name.main());
        let departing = !open.names.is_empty() && names.iter().any(is_left);
        departing.then_some(open.posts)
    }

    /// Waits until the name has been left by all that was posted up to this number.
    pub(crate) async fn departed(&self, name: &Name, post: u64) {
        loop {
            let last = {
                let open = lock(&self.departing);
                let of_name = open.names.get(name.main());
                of_name.and_then(|posts| {
                    posts
                        .range(..=post)
                        .next_back()
                        .map(|(_, it)| Arc::clone(it))
                })
            };
            match last {
                Some(last) => last.thrown().await,
                None => return,
            }
        }
    }

    /// Leaves for a claim, or for several that one script can leave for, some time soon. Belief in them must have ended.
    pub(crate) fn post(&self, requester: &Requester, parts: Vec<Arc<Part>>) {
        let ends = parts.iter().map(|it| leave::of_use_until(requester, it));
        let Some(until) = ends.max() else {
            return;
        };
        let claims = parts.len();
        self.counts.change(|tally| tally.open += claims);
        let departure = Departure::begin(&self.departing, &parts);
        let post = Post {
            parts,
            until,
            departure,
        };
        if self.inbox.send(post).is_err() {
            // The task has ended; the claims end by their ttl.
            self.counts.settle(0, claims);
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

    fn settle(&self, left: usize, unconfirmed: usize) {
        let open = self.change(|tally| {
            tally.open = tally.open.saturating_sub(left + unconfirmed);
            tally.left += left;
            tally.unconfirmed += unconfirmed;
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

impl Posts {
    /// Leaves for all that is posted until every handle is gone and every claim is settled. Dropping the future gives up what
    /// is open.
    pub(crate) fn leave_for_all(
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
    let mut leaves = FuturesUnordered::new();
    let mut open = true;
    while open || !leaves.is_empty() {
        tokio::select! {
            biased;
            Some((left, unconfirmed)) = leaves.next() => working.0.settle(left, unconfirmed),
            post = posts.recv(), if open => match post {
                Some(Post { parts, until, departure }) => {
                    // Servers come and go; those of which nothing is on its way are forgotten with the leaves.
                    if leaves.is_empty() {
                        bounds.clear();
                    }
                    let server = parts.first().map_or(0, |part| {
                        let main = part.protocol.name().main();
                        requester.store.server_of(requester.store.group(main))
                    });
                    let bounds = Arc::clone(bounds.entry(server).or_default());
                    let (requester, subscriptions) = (&requester, &subscriptions);
                    leaves.push(async move {
                        let counts = leave(requester, subscriptions, parts, until, bounds).await;
                        drop(departure);
                        counts
                    });
                }
                None => open = false,
            },
        }
    }
}

/// Leaves until answered or until it is of no use any more; how many the server has confirmed, and how many not.
async fn leave(
    requester: &Requester,
    subscriptions: &Subscriptions,
    mut open: Vec<Arc<Part>>,
    until: Moment,
    bounds: Arc<Bounds>,
) -> (usize, usize) {
    let mut pauses = Pauses::new(open.first().map_or(0, |part| part.number));
    let (mut left, mut unconfirmed) = (0, 0);
    let mut bound = &bounds.first;
    loop {
        let attempts = {
            // An error means that the semaphore is closed, which nobody does.
            let _permit = bound.acquire().await;
            leave::attempt_all(requester, subscriptions, &open).await
        };
        let mut again = Vec::new();
        for (part, attempt) in open.into_iter().zip(attempts) {
            let (name, claim) = (part.protocol.name().as_str(), &part.id);
            match attempt {
                Attempt::Final(Ok(_) | Err(Error::Lost { .. })) => left += 1,
                Attempt::Final(Err(error)) => {
                    tracing::warn!(name, %claim, %error, "cannot leave; the claim ends with its ttl");
                    unconfirmed += 1;
                }
                Attempt::Again(error) if requester.clock.now() >= until => {
                    tracing::warn!(name, %claim, %error, "never left; the claim has ended with its ttl");
                    unconfirmed += 1;
                }
                Attempt::Again(_) => again.push(part),
            }
        }
        open = again;
        if open.is_empty() {
            return (left, unconfirmed);
        }
        tokio::time::sleep(pauses.next()).await;
        bound = &bounds.repeated;
    }
}
