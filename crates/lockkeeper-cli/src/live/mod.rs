//! Observes all locks continuously, at a bounded cost for the server however many names there are.
//!
//! A [`Sampler`] lists the names in pages, asks about them, and makes a [`Sample`] of what it then knows. If there are too many
//! names to ask about all of them in time, they take turns. For each sample, it asks about the [seen](Wanted::seen) names and those
//! with the most waiters. `board` and `past` evaluate the answers and send no requests.

mod board;
mod order;
mod past;
mod sample;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, stream};
use lockkeeper::{Client, Error, Names};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::exit::{Failure, UNAVAILABLE};
use crate::look::{Lock, Part, QUEUE};
use board::{Board, questions};
pub(crate) use order::{Order, has};
use sample::per_second;
pub(crate) use sample::{Load, Rates, Row, Sample, Totals, Waits};

/// The largest number of requests per second. A request takes a server some 20 µs, so all of them take 2 % of its time. Ten
/// thousand names need two requests each, one for the name and one for the label of its holder, so each has its turn within half a
/// minute.
const QUESTIONS: u32 = 1000;

/// One in `FOR_FIRST` requests may be about seen or crowded names, and one in `FOR_QUEUES` about queues. The names in turn get the
/// rest.
const FOR_FIRST: u64 = 5;
const FOR_QUEUES: u64 = 10;

/// One in `FOR_LISTS` requests is for the list of names over time, and one in `FOR_ONE_LIST` while a list is made: a list that
/// takes long is made rarely, but then faster.
const FOR_LISTS: u32 = 10;
const FOR_ONE_LIST: u64 = 4;

/// A page of names counts as this many requests, because it takes a server about as long.
const PAGE: u64 = 5;

/// How many names are asked about between two looks at the clock, and how many of them at once.
const SLICE: usize = 50;
const AT_ONCE: usize = 16;

/// What the viewer is most interested in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The names on the screen.
    pub(crate) seen: Vec<String>,
    /// The name whose queue is on the screen. When this changes, a sample is made at once.
    pub(crate) opened: Option<String>,
}

/// Makes one sample after another.
pub(crate) struct Sampler {
    client: Client,
    pattern: String,
    interval: Duration,
    wanted: watch::Receiver<Wanted>,
    board: Board,
    /// The list in progress.
    names: Option<Names>,
    /// When the list in progress was begun, and when the last complete one was.
    list_begun: Instant,
    listed: Option<Instant>,
    /// How many pages the list in progress has so far.
    list_pages: u64,
    /// When the next list may begin.
    list_due: Instant,
    /// When the last sample was made; `None`: none yet.
    last: Option<Instant>,
    /// The name that was open when the last sample was made.
    opened: Option<String>,
    /// How many requests were sent beyond what the samples so far were allowed. One look at a name with very many holders may
    /// exceed the allowance.
    debt: u64,
}

/// The requests for one sample.
struct Round {
    begun: Instant,
    /// When the sample is due.
    end: Instant,
    questions: u64,
    pages: u64,
    /// How many requests it may take; a page counts as several.
    most: u64,
    failure: Option<Failure>,
}

impl Round {
    /// How many requests were sent; a page counts as several.
    const fn spent(&self) -> u64 {
        self.questions + self.pages * PAGE
    }

    /// Notes a failure that may pass.
    fn fail(&mut self, error: Error) -> Result<(), Failure> {
        let failure = Failure::from(error);
        if failure.code != UNAVAILABLE {
            return Err(failure);
        }
        self.failure = Some(failure);
        Ok(())
    }
}

impl Sampler {
    /// Creates a sampler, which sends no request yet, and a sender for what the viewer wants. A value that you send counts from the
    /// next sample on.
    pub(crate) fn new(
        client: Client,
        pattern: &str,
        interval: Duration,
    ) -> (Self, watch::Sender<Wanted>) {
        let (sender, wanted) = watch::channel(Wanted::default());
        let now = Instant::now();
        let sampler = Self {
            client,
            pattern: pattern.to_owned(),
            interval,
            wanted,
            board: Board::new(now.into()),
            names: None,
            list_begun: now,
            listed: None,
            list_pages: 0,
            list_due: now,
            last: None,
            opened: None,
            debt: 0,
        };
        (sampler, sender)
    }

    /// Makes the next samples [whole](Load::whole) only when each name was asked about again. Call it after a pause.
    pub(crate) fn look_again(&mut self) {
        self.board.look_again();
        self.names = None;
        self.list_due = Instant::now();
    }

    /// Returns the next sample: the first one at once, later ones one interval apart, or as soon as another name is opened. If the
    /// server cannot be reached, the sample says so. A failure that does not pass, such as a bad pattern, is an error.
    pub(crate) async fn next(&mut self) -> Result<Sample, Failure> {
        let mut round = self.begin();
        self.list(&mut round).await?;
        let share = round.most / FOR_FIRST;
        let (first, reserved) = self.board.first(&self.wanted.borrow().seen, share);
        let left = round.most.saturating_sub(round.spent() + reserved);
        let turn = self.board.turn(left, round.begun.into(), &first);
        for names in turn.chunks(SLICE) {
            let answered = self.look(names, &mut round).await?;
            if !answered || Instant::now() > round.end || !self.paced(&round).await {
                break;
            }
        }
        self.wait_until(round.end).await;
        // What the viewer wants may have changed meanwhile.
        let wanted = self.wanted.borrow_and_update().clone();
        let (first, _) = self.board.first(&wanted.seen, share);
        let mut first: Vec<String> = first
            .into_iter()
            .filter(|name| Some(name) != wanted.opened.as_ref())
            .collect();
        if round.most > 0 {
            first.extend(wanted.opened.clone());
        }
        let mut answered = true;
        for names in first.chunks(SLICE) {
            answered = answered && self.look(names, &mut round).await?;
        }
        if answered {
            self.look_at_queues(wanted.opened.as_deref(), &mut round)
                .await?;
        }
        self.opened = wanted.opened;
        Ok(self.sample(round))
    }

    fn begin(&self) -> Round {
        let begun = Instant::now();
        let end = match self.last {
            Some(last) => begun.max(last + self.interval),
            None => begun,
        };
        Round {
            begun,
            end,
            questions: 0,
            pages: 0,
            most: self.allowed().saturating_sub(self.debt),
            failure: None,
        }
    }

    /// Returns how many requests a sample may take. The first sample gets at most one second's worth.
    fn allowed(&self) -> u64 {
        let interval = match self.last {
            Some(_) => self.interval,
            None => self.interval.min(Duration::from_secs(1)),
        };
        let millis = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        millis.saturating_mul(QUESTIONS.into()) / 1000
    }

    /// Continues the list of names, or begins the next one when it is due.
    async fn list(&mut self, round: &mut Round) -> Result<(), Failure> {
        let names = match &mut self.names {
            Some(names) => names,
            None if round.begun < self.list_due => return Ok(()),
            names => {
                self.list_begun = round.begun;
                self.list_pages = 0;
                self.board.list_begins();
                names.insert(self.client.names(&self.pattern))
            }
        };
        while round.spent() < round.most / FOR_ONE_LIST {
            round.pages += 1;
            self.list_pages += 1;
            match names.next_page().await {
                Ok(Some(page)) => {
                    for name in page {
                        self.board.found(name);
                    }
                }
                Ok(None) => {
                    round.pages -= 1;
                    let cost = Duration::from_secs(self.list_pages * PAGE) / QUESTIONS;
                    self.list_due = self.list_begun + cost * FOR_LISTS;
                    self.board.list_ends();
                    self.listed = Some(self.list_begun);
                    self.names = None;
                    break;
                }
                Err(error) => {
                    // The list starts again, because other servers may be responsible for the names by now.
                    self.names = None;
                    return round.fail(error);
                }
            }
        }
        Ok(())
    }

    /// Asks about these names, and returns whether any answer came.
    async fn look(&mut self, names: &[String], round: &mut Round) -> Result<bool, Failure> {
        let Self { client, board, .. } = self;
        for name in names {
            board.tried(name, Instant::now().into());
        }
        let ask = async |name: &String| (name.clone(), client.inspect(name).await);
        let mut looks = stream::iter(names.iter().map(ask)).buffer_unordered(AT_ONCE);
        let mut answered = names.is_empty();
        while let Some((name, seen)) = looks.next().await {
            let now = Instant::now().into();
            round.questions += 1;
            match seen {
                Ok(seen) => {
                    let lock = Lock::new(seen, Vec::new());
                    round.questions += questions(&lock.holders) - 1;
                    board.looked(lock, now);
                }
                // The key belongs to another program.
                Err(Error::WrongKind { .. }) => board.is_no_lock(&name, now),
                Err(error) => {
                    round.fail(error)?;
                    continue;
                }
            }
            answered = true;
        }
        Ok(answered)
    }

    /// Reads queues.
    async fn look_at_queues(
        &mut self,
        opened: Option<&str>,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let Self { client, board, .. } = self;
        let names = board.queues(opened, round.most / FOR_QUEUES);
        for name in &names {
            board.queue_tried(name, Instant::now().into());
        }
        let ask = async |name: &String| (name.clone(), client.waiters(name, QUEUE).await);
        let mut looks = stream::iter(names.iter().map(ask)).buffer_unordered(AT_ONCE);
        while let Some((name, queue)) = looks.next().await {
            round.questions += 1;
            let queue: Vec<Part> = match queue {
                Ok(queue) => queue.into_iter().map(Part::waiter).collect(),
                // A key of another program is in place of the queue.
                Err(Error::WrongKind { .. }) => Vec::new(),
                Err(error) => {
                    round.fail(error)?;
                    continue;
                }
            };
            round.questions += questions(&queue) - 1;
            let most = usize::try_from(QUEUE).unwrap_or(usize::MAX);
            board.queued(&name, queue, most, Instant::now().into());
        }
        Ok(())
    }

    /// Waits until this many requests are allowed. Returns false if another name was opened first, so that the sample is due at
    /// once.
    async fn paced(&mut self, round: &Round) -> bool {
        if self.last.is_none() {
            return true;
        }
        let asked = u32::try_from(round.spent()).unwrap_or(u32::MAX);
        let due = round.begun + Duration::from_secs(1) * asked / QUESTIONS;
        self.wait_until(due).await
    }

    /// Waits until `due`. Returns false if another name was opened first.
    async fn wait_until(&mut self, due: Instant) -> bool {
        let Self { wanted, opened, .. } = self;
        let other = |wanted: &Wanted| wanted.opened.is_some() && wanted.opened != *opened;
        tokio::select! {
            Ok(_) = wanted.wait_for(other) => false,
            () = sleep_until(due) => true,
        }
    }

    fn sample(&mut self, round: Round) -> Sample {
        let now = Instant::now();
        let since = self.last.unwrap_or(round.begun);
        let time = now.saturating_duration_since(since);
        self.debt = (self.debt + round.spent()).saturating_sub(self.allowed());
        self.last = Some(now);
        let mut sample = self.board.sample(now.into(), SystemTime::now());
        sample.load.questions_per_second = per_second(round.questions, time);
        sample.load.pages_per_second = per_second(round.pages, time);
        let listed = self
            .listed
            .map(|listed| now.saturating_duration_since(listed));
        sample.load.listed_ms = listed.map(sample::millis);
        sample.unreachable = round.failure.map(|failure| failure.message().to_owned());
        sample
    }
}
