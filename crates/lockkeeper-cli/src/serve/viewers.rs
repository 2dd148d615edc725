//! **Pure**: who looks on, what each viewer is interested in, and who goes if there are too many.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::connections::Stay;
use crate::live::Wanted;

/// The largest number of open pages. Each gets some 50 KB per second at most.
pub(super) const MOST: usize = 64;

/// A viewer is idle if it has taken no sample for this long: some samples, so that a network that hesitates is no reason to go.
const IDLE: Duration = Duration::from_secs(5);

/// All viewers, by the order of arrival.
#[derive(Default)]
pub(super) struct Viewers {
    came: u64,
    there: BTreeMap<u64, Viewer>,
}

struct Viewer {
    wanted: Wanted,
    /// When it last took a sample, or came.
    took: Instant,
    /// Tells it to go.
    displace: oneshot::Sender<()>,
    /// Without this, its connection is closed soon, also if it does not listen.
    _stay: Stay,
}

impl Viewers {
    /// Adds a viewer, and returns its number and what tells it that it must go. If there are [`MOST`] already, one of them is told.
    pub(super) fn add(
        &mut self,
        wanted: Wanted,
        stay: Stay,
        now: Instant,
    ) -> (u64, oneshot::Receiver<()>) {
        if self.there.len() >= MOST
            && let Some(viewer) = self
                .first_to_go(now)
                .and_then(|number| self.there.remove(&number))
        {
            // The error is ignored: it has gone by itself.
            let _ = viewer.displace.send(());
        }
        let (displace, displaced) = oneshot::channel();
        self.came += 1;
        let viewer = Viewer {
            wanted,
            took: now,
            displace,
            _stay: stay,
        };
        self.there.insert(self.came, viewer);
        (self.came, displaced)
    }

    /// The viewer that came first of those that are idle, or of all if none is.
    fn first_to_go(&self, now: Instant) -> Option<u64> {
        let is_idle = |viewer: &Viewer| now.saturating_duration_since(viewer.took) >= IDLE;
        let idle = self.there.iter().find(|(_, viewer)| is_idle(viewer));
        idle.or_else(|| self.there.first_key_value())
            .map(|(number, _)| *number)
    }

    /// Notes that a viewer has taken a sample, and what it is interested in now.
    pub(super) fn took(&mut self, number: u64, wanted: Wanted, now: Instant) {
        if let Some(viewer) = self.there.get_mut(&number) {
            viewer.wanted = wanted;
            viewer.took = now;
        }
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.there.remove(&number);
    }

    /// Combines what all viewers are interested in. If one name is open, its queue is read for each sample. If several are, they
    /// take turns.
    pub(super) fn wanted(&self) -> Wanted {
        let newest_first = || self.there.values().rev().map(|it| &it.wanted);
        let opened = newest_first().filter_map(|it| it.opened.clone());
        let opened: Vec<String> = opened.collect();
        let seen = newest_first().flat_map(|it| it.seen.clone());
        Wanted {
            seen: opened.iter().cloned().chain(seen).collect(),
            opened: opened.into_iter().next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_idle_goes_for_one_who_comes_and_the_first_of_all_if_none_is() {
        let begun = Instant::now();
        let mut viewers = Viewers::default();
        let mut told: BTreeMap<u64, oneshot::Receiver<()>> = (0..MOST)
            .map(|_| viewers.add(Wanted::default(), Stay::new().0, begun))
            .collect();
        let mut goes = |viewers: &mut Viewers, now| {
            let (number, displaced) = viewers.add(Wanted::default(), Stay::new().0, now);
            told.insert(number, displaced);
            let gone = told
                .iter_mut()
                .find_map(|(number, it)| it.try_recv().is_ok().then_some(*number));
            told.remove(&gone?);
            gone
        };
        let now = begun + IDLE;
        for number in [1, 2, 3, 5] {
            viewers.took(number, Wanted::default(), now);
        }
        assert_eq!(goes(&mut viewers, now), Some(4));
        assert_eq!(goes(&mut viewers, now), Some(6));
        for number in 0..100 {
            viewers.took(number, Wanted::default(), now);
        }
        assert_eq!(goes(&mut viewers, now), Some(1));
        // One who has gone is not in the way, and takes nobody's place when it takes a sample.
        viewers.took(1, Wanted::default(), now);
        viewers.remove(2);
        assert_eq!(goes(&mut viewers, now), None);
        assert_eq!(goes(&mut viewers, now), Some(3));
    }
}
