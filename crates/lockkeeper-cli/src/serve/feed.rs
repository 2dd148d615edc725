//! One sampler for all viewers. It pauses while there are none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::view::{Question, View};
use crate::exit::Failure;
use crate::live::{Sample, Sampler, Wanted};

/// How often there is a new sample: as often as people can read it.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// How long the sampler continues after a scrape. Prometheus scrapes every 15 s to 60 s, and the sampler must not miss events
/// between two scrapes.
const LINGER: Duration = Duration::from_secs(75);

/// The viewers, and the samples that they are shown.
pub(super) struct Feed {
    /// The newest sample; `None`: there are no viewers.
    samples: watch::Sender<Option<Arc<Sample>>>,
    scraped: watch::Sender<Option<Instant>>,
    came: Notify,
    viewers: Mutex<Viewers>,
    wanted: watch::Sender<Wanted>,
}

/// What each viewer is interested in, by the order of arrival.
#[derive(Default)]
struct Viewers {
    came: u64,
    there: BTreeMap<u64, Wanted>,
}

impl Viewers {
    /// Combines what all viewers are interested in. If one name is open, its queue is read for each sample. If several are, they
    /// take turns.
    fn wanted(&self) -> Wanted {
        let newest_first = || self.there.values().rev();
        let opened = newest_first().filter_map(|it| it.opened.clone());
        let opened: Vec<String> = opened.collect();
        let seen = newest_first().flat_map(|it| it.seen.clone());
        Wanted {
            seen: opened.iter().cloned().chain(seen).collect(),
            opened: opened.into_iter().next(),
        }
    }
}

impl Feed {
    /// Creates a feed, and the sampler that [`run`](Self::run) needs.
    pub(super) fn new(client: Client, pattern: &str) -> (Arc<Self>, Sampler) {
        let (sampler, wanted) = Sampler::new(client, pattern, INTERVAL);
        let feed = Self {
            samples: watch::Sender::new(None),
            scraped: watch::Sender::new(None),
            came: Notify::new(),
            viewers: Mutex::default(),
            wanted,
        };
        (Arc::new(feed), sampler)
    }

    /// Makes samples while there are viewers. Returns a failure that does not pass.
    pub(super) async fn run(&self, mut sampler: Sampler) -> Failure {
        loop {
            if !self.is_watched() {
                self.samples.send_replace(None);
                self.came.notified().await;
                continue;
            }
            match sampler.next().await {
                Ok(sample) => {
                    self.samples.send_replace(Some(Arc::new(sample)));
                }
                Err(failure) => return failure,
            }
        }
    }

    fn is_watched(&self) -> bool {
        let scraped = *self.scraped.borrow();
        self.samples.receiver_count() > 0 || scraped.is_some_and(|then| then.elapsed() < LINGER)
    }

    fn subscribe(&self) -> watch::Receiver<Option<Arc<Sample>>> {
        let samples = self.samples.subscribe();
        self.came.notify_one();
        samples
    }

    /// Returns a current sample; `None` if none was made within this time.
    pub(super) async fn sample(&self, limit: Duration) -> Option<Arc<Sample>> {
        let mut samples = self.subscribe();
        let sample = samples.wait_for(Option::is_some);
        let sample = tokio::time::timeout(limit, sample).await.ok()?.ok()?;
        sample.clone()
    }

    /// Returns a current sample to a scrape. The sampler then continues for a while.
    pub(super) async fn scrape(&self, limit: Duration) -> Option<Arc<Sample>> {
        self.scraped.send_replace(Some(Instant::now()));
        self.sample(limit).await
    }

    /// Adds a viewer.
    pub(super) fn look_on(self: &Arc<Self>, question: Question) -> Viewer {
        let number = {
            let mut viewers = self.viewers.lock();
            viewers.came += 1;
            viewers.came
        };
        let mut samples = self.subscribe();
        // A sample that exists already is new to this viewer.
        samples.mark_changed();
        let viewer = Viewer {
            samples,
            feed: Arc::clone(self),
            number,
            question,
        };
        viewer.wants(Vec::new());
        viewer
    }

    fn tell(&self, change: impl FnOnce(&mut Viewers)) {
        let mut viewers = self.viewers.lock();
        change(&mut viewers);
        self.wanted.send_replace(viewers.wanted());
    }
}

/// One viewer, from its creation to its end.
pub(super) struct Viewer {
    feed: Arc<Feed>,
    number: u64,
    question: Question,
    samples: watch::Receiver<Option<Arc<Sample>>>,
}

impl Viewer {
    /// Waits for the next sample to show, and returns it as JSON. It is always the newest one, so a slow viewer skips those in
    /// between. `None`: the end.
    pub(super) async fn next(&mut self) -> Option<serde_json::Result<String>> {
        let sample = loop {
            self.samples.changed().await.ok()?;
            if let Some(sample) = self.samples.borrow_and_update().clone() {
                break sample;
            }
        };
        let view = View::new(&sample, &self.question);
        self.wants(view.seen());
        Some(view.json())
    }

    fn wants(&self, seen: Vec<String>) {
        let opened = self.question.open.clone();
        let wanted = Wanted { seen, opened };
        self.feed.tell(|viewers| {
            viewers.there.insert(self.number, wanted);
        });
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.feed.tell(|viewers| {
            viewers.there.remove(&self.number);
        });
    }
}
