//! One sampler for all viewers. It pauses while there are none.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::connections::Stay;
use super::view::{Question, View};
use super::viewers::Viewers;
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

/// What a single answer can be made of.
pub(super) enum Sight {
    /// A current sample that has all names, or says why the locks' server does not answer.
    Whole(Arc<Sample>),
    /// One without names that were not asked about yet.
    Part(Arc<Sample>),
    /// There is no sample.
    Nothing,
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
                sampler.look_again();
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

    /// Waits for a whole sample, but no longer than this. After a pause, names are asked about first.
    pub(super) async fn sample(&self, limit: Duration) -> Sight {
        let mut samples = self.subscribe();
        let whole = samples.wait_for(|it| it.as_ref().is_some_and(|it| it.is_whole()));
        if let Ok(Ok(sample)) = tokio::time::timeout(limit, whole).await
            && let Some(sample) = sample.clone()
        {
            return Sight::Whole(sample);
        }
        let part = samples.borrow().clone();
        match part {
            Some(sample) => {
                // Whoever asks again finds the names that are asked about meanwhile.
                self.linger();
                Sight::Part(sample)
            }
            None => Sight::Nothing,
        }
    }

    /// The same for a scrape. The sampler then continues for a while.
    pub(super) async fn scrape(&self, limit: Duration) -> Sight {
        self.linger();
        self.sample(limit).await
    }

    fn linger(&self) {
        self.scraped.send_replace(Some(Instant::now()));
    }

    /// Adds a viewer. If there are too many, another one [goes](Seen::Displaced).
    pub(super) fn look_on(self: &Arc<Self>, question: Question, stay: Stay) -> Viewer {
        let mut samples = self.subscribe();
        // A sample that exists already is new to this viewer.
        samples.mark_changed();
        let opened = question.open.clone();
        let wanted = Wanted {
            seen: Vec::new(),
            opened,
        };
        let (number, displaced) = self.tell(|viewers| viewers.add(wanted, stay, Instant::now()));
        Viewer {
            samples,
            feed: Arc::clone(self),
            number,
            question,
            displaced,
        }
    }

    fn tell<T>(&self, change: impl FnOnce(&mut Viewers) -> T) -> T {
        let mut viewers = self.viewers.lock();
        let told = change(&mut viewers);
        self.wanted.send_replace(viewers.wanted());
        told
    }
}

/// One viewer, from its creation to its end.
pub(super) struct Viewer {
    feed: Arc<Feed>,
    number: u64,
    question: Question,
    samples: watch::Receiver<Option<Arc<Sample>>>,
    displaced: oneshot::Receiver<()>,
}

/// What happens to a viewer.
pub(super) enum Seen {
    /// There is a sample, as JSON.
    Sample(serde_json::Result<String>),
    /// Another viewer has taken its place. Nothing follows.
    Displaced,
}

impl Viewer {
    /// Waits for the next sample to show. It is always the newest one, so a slow viewer skips those in between. `None`: the end.
    pub(super) async fn next(&mut self) -> Option<Seen> {
        let sample = loop {
            tokio::select! {
                biased;
                Ok(()) = &mut self.displaced => return Some(Seen::Displaced),
                changed = self.samples.changed() => changed.ok()?,
            }
            if let Some(sample) = self.samples.borrow_and_update().clone() {
                break sample;
            }
        };
        let view = View::new(&sample, &self.question);
        let wanted = Wanted {
            seen: view.seen(),
            opened: self.question.open.clone(),
        };
        self.feed
            .tell(|viewers| viewers.took(self.number, wanted, Instant::now()));
        Some(Seen::Sample(view.json()))
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.feed.tell(|viewers| viewers.remove(self.number));
    }
}
