//! Posting releases to the background releaser, and waiting until they are done.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};

use crate::engine::part::Part;
use crate::engine::switch::Switch;
use crate::engine::sync::Mutex;
use crate::seam::observer::LeaseEvent;
use crate::words::moment::Moment;
use crate::words::name::Name;

/// The handle by which claims are posted for release. Posting never waits.
#[derive(Debug, Clone)]
pub(crate) struct Releaser {
    inbox: mpsc::UnboundedSender<Post>,
    counts: Arc<Counts>,
    departing: Arc<Mutex<Departing>>,
}

/// What has been posted, for the task that releases it.
pub(crate) struct Posts {
    pub(super) inbox: mpsc::UnboundedReceiver<Post>,
    pub(super) counts: Arc<Counts>,
}

/// Claims to release, with one script if there are several.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) open: Open,
    /// Until when it makes sense to release them.
    pub(super) until: Moment,
    pub(super) departure: Departure,
}

/// Claims whose release is not confirmed. When this is dropped, the remaining ones are reported as never confirmed.
#[derive(Debug, Default)]
pub(super) struct Open(pub(super) Vec<Arc<Part>>);

impl Drop for Open {
    fn drop(&mut self) {
        for part in &self.0 {
            part.tell_end(|held| LeaseEvent::Unconfirmed { held });
        }
    }
}

/// The names whose claims are being released. Each has the numbers of its posts, and for each post the switch that is
/// set when it is settled.
#[derive(Debug, Default)]
struct Departing {
    posts: u64,
    names: BTreeMap<Box<str>, BTreeMap<u64, Arc<Switch>>>,
}

/// One posted release. It is dropped when the release is done or abandoned.
#[derive(Debug)]
pub(super) struct Departure {
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
        let mut open = departing.lock();
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
        let mut open = self.departing.lock();
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

/// The outcomes of the posted claims.
#[derive(Debug, Default)]
pub(super) struct Counts {
    tally: Mutex<Tally>,
    pub(super) settled: Notify,
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    /// Posted and not yet settled.
    pub(super) open: usize,
    left: usize,
    pub(super) unconfirmed: usize,
}

impl Releaser {
    /// A handle for posting, and the receiving end.
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

    /// The number of the last post, if any of these names has a pending release.
    pub(crate) fn departing(&self, names: &[&Name]) -> Option<u64> {
        let open = self.departing.lock();
        let is_left = |name: &&Name| open.names.contains_key(name.main());
        let departing = !open.names.is_empty() && names.iter().any(is_left);
        departing.then_some(open.posts)
    }

    /// Waits until the name has no pending release from the posts up to this number.
    pub(crate) async fn departed(&self, name: &Name, post: u64) {
        loop {
            let last = {
                let open = self.departing.lock();
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

    /// Posts the release of one claim, or of several that one script can release. They must no longer be valid.
    pub(crate) fn post(&self, parts: Vec<Arc<Part>>) {
        let ends = parts.iter().map(|it| it.now().after(it.terms.ttl));
        let Some(until) = ends.max() else {
            return;
        };
        let claims = parts.len();
        self.counts.change(|tally| tally.open += claims);
        let departure = Departure::begin(&self.departing, &parts);
        let post = Post {
            open: Open(parts),
            until,
            departure,
        };
        if self.inbox.send(post).is_err() {
            // The task has ended; the claims will expire.
            self.counts.settle(0, claims);
        }
    }

    /// Waits until no release is open.
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
    pub(super) fn change<T>(&self, f: impl FnOnce(&mut Tally) -> T) -> T {
        f(&mut self.tally.lock())
    }

    pub(super) fn settle(&self, left: usize, unconfirmed: usize) {
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
