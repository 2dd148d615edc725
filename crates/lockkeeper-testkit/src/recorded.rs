//! Work under locks of all kinds in one run, by tasks that record when their leases were valid. The same tasks and checks run
//! on a server, behind sentinels, on a cluster and on several servers.
//!
//! A recorded span was valid for certain. It begins when the guard is in hand. Its end is a time read just before a check that
//! finds the lease held, so measuring cannot create an overlap. The time after that check is not recorded.

mod strict;
mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper::{Client, ClientBuilder};
use lockkeeper_core::store::Store;
use parking_lot::Mutex;

use crate::history::{Excuses, History, ValidSpan, now};
use crate::site::Site;
use crate::until::{PATIENCE, until};
use strict::{Strict, Tokens};
pub use work::{Job, Pace, Several, Single, serve, turn, work};

/// The ttl of leases, and of waiters.
pub const TTL: Duration = Duration::from_secs(3);

/// The prefixes of keys that may remain on a server; they expire.
const REMAINS: [&str; 2] = ["lockkeeper.fence:", "lockkeeper.client:"];

/// How long a test under load lasts: 5 s, or `LOCKKEEPER_LOAD_SECONDS`.
pub fn duration() -> Duration {
    let seconds = std::env::var("LOCKKEEPER_LOAD_SECONDS");
    let seconds = seconds.ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(5))
}

/// The settings of every client here.
pub fn settings() -> ClientBuilder {
    Client::builder().ttl(TTL).waiter_ttl(TTL)
}

/// The clients of one process, one per server, which can be replaced at any time.
#[derive(Debug, Clone)]
pub struct Process(Arc<Mutex<Vec<Client>>>);

impl Process {
    /// Creates a process with these clients.
    pub fn new(clients: Vec<Client>) -> Self {
        Self(Arc::new(Mutex::new(clients)))
    }

    /// The present clients.
    pub fn clients(&self) -> Vec<Client> {
        self.0.lock().clone()
    }

    /// Replaces the clients, and returns the old ones.
    pub fn replace(&self, clients: Vec<Client>) -> Vec<Client> {
        std::mem::replace(&mut self.0.lock(), clients)
    }
}

/// A time in which a server may lose writes that it has acknowledged.
#[derive(Debug)]
struct Loss {
    from: u64,
    until: u64,
    /// The names of the locks on that server.
    names: Vec<String>,
}

/// The records of all tasks.
#[derive(Debug, Default)]
pub struct Records {
    histories: BTreeMap<String, History>,
    losses: Mutex<Vec<Loss>>,
    pace: Pace,
    at_least: usize,
    /// Receives every recorded span, if set.
    told: Option<fn(&str, &ValidSpan)>,
    foreign: Arc<AtomicU64>,
    tokens: Arc<Tokens>,
    lost: AtomicU64,
    refused: AtomicU64,
    unserved: AtomicU64,
    closed: AtomicU64,
    excused: AtomicU64,
    joined: AtomicU64,
}

impl Records {
    /// Creates empty records for the locks with these names.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let histories = names.into_iter().map(|name| (name, History::default()));
        Self {
            histories: histories.collect(),
            ..Self::default()
        }
    }

    /// Creates empty records for the locks of these jobs.
    pub fn of(jobs: &[Job]) -> Self {
        Self::new(jobs.iter().copied().flat_map(Job::names))
    }

    /// Sets the pace of the tasks.
    #[must_use]
    pub fn at(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// Sets how often each lock must be held: the tasks go on until it was, on a slow machine beyond their time.
    #[must_use]
    pub fn at_least(mut self, times: usize) -> Self {
        self.at_least = times;
        self
    }

    /// Calls `told` with each span when it has ended.
    #[must_use]
    pub fn telling(mut self, told: fn(&str, &ValidSpan)) -> Self {
        self.told = Some(told);
        self
    }

    /// The names of the locks.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.histories.keys().map(String::as_str)
    }

    /// Records a span in which a lease of the lock `name` was valid.
    ///
    /// # Errors
    ///
    /// If there is no such lock.
    pub fn record(&self, name: &str, span: ValidSpan) -> Result<()> {
        let history = self.histories.get(name);
        let history = history.with_context(|| format!("no lock {name:?}"))?;
        if let Some(told) = self.told {
            told(name, &span);
        }
        history.record(span);
        Ok(())
    }

    /// Connects a new client whose store counts replies that belong to other requests.
    ///
    /// # Errors
    ///
    /// If it cannot connect.
    pub async fn client(&self, site: &dyn Site, settings: ClientBuilder) -> Result<Client> {
        self.client_over(site.store().await?, settings)
    }

    /// The same over a given store.
    ///
    /// # Errors
    ///
    /// If the settings are inconsistent.
    pub fn client_over(&self, store: Arc<dyn Store>, settings: ClientBuilder) -> Result<Client> {
        let (foreign, tokens) = (Arc::clone(&self.foreign), Arc::clone(&self.tokens));
        let strict = Strict::new(store, foreign, tokens);
        Ok(settings.build(Arc::new(strict))?)
    }

    /// From now on, the server of the locks with these names may lose acknowledged writes, until
    /// [`lost_nothing_more`](Self::lost_nothing_more).
    pub fn may_lose(&self, names: Vec<String>) {
        self.losses.lock().push(Loss {
            from: now(),
            until: u64::MAX,
            names,
        });
    }

    /// Ends that time: whatever was written is now either there or lost.
    pub fn lost_nothing_more(&self) {
        if let Some(loss) = self.losses.lock().last_mut() {
            loss.until = now();
        }
    }

    /// Whether a failover between the two grants may explain a conflict.
    fn is_lost(&self, name: &str, earlier: &ValidSpan, later: &ValidSpan) -> bool {
        self.losses.lock().iter().any(|loss| {
            loss.names.iter().any(|lost| lost == name)
                && earlier.from <= loss.until
                && later.from >= loss.from
        })
    }

    /// Whether each lock was held as often as it must be.
    fn is_enough(&self) -> bool {
        let mut histories = self.histories.values();
        histories.all(|history| history.spans() >= self.at_least)
    }

    /// Checks the records. No two spans that exclude one another overlap, unless a failover explains it. Tokens increase even
    /// then, except that a reader may join readers that a failover brought back. Every lock was held as often as it must be.
    /// No reply went to the wrong request. Returns the number of grants.
    ///
    /// # Errors
    ///
    /// The broken rule, and where.
    pub fn check(&self) -> Result<usize> {
        let mut grants = 0;
        for (name, history) in &self.histories {
            let checked = history.check_unless(&Failovers {
                records: self,
                name,
            });
            let of_name =
                checked.with_context(|| format!("{name:?}, {:#?}", self.losses.lock()))?;
            let enough = of_name >= self.at_least;
            ensure!(enough, "{name:?} was held {of_name} times");
            grants += of_name;
        }
        let foreign = self.foreign.load(Ordering::Relaxed);
        ensure!(foreign == 0, "{foreign} replies that belonged to others");
        Ok(grants)
    }

    /// The same for work without faults: no lease was lost, and everybody was served.
    ///
    /// # Errors
    ///
    /// As for [`check`](Self::check).
    pub fn check_without_faults(&self) -> Result<usize> {
        let failures = [&self.lost, &self.refused, &self.unserved, &self.closed];
        let failed = failures.iter().any(|it| it.load(Ordering::Relaxed) > 0);
        ensure!(!failed, "{self}");
        self.check()
    }
}

/// The conflicts about one name that failovers explain.
struct Failovers<'a> {
    records: &'a Records,
    name: &'a str,
}

impl Excuses for Failovers<'_> {
    fn at_once(&self, earlier: &ValidSpan, later: &ValidSpan) -> bool {
        let excused = self.records.is_lost(self.name, earlier, later);
        self.records
            .excused
            .fetch_add(excused.into(), Ordering::Relaxed);
        excused
    }

    /// The token must have been drawn before the earlier span.
    fn joins(&self, earlier: &ValidSpan, later: &ValidSpan) -> bool {
        let heard = self.records.tokens.first_heard(later.token);
        let joined = heard.is_some_and(|heard| heard < earlier.from)
            && self.records.is_lost(self.name, earlier, later);
        self.records
            .joined
            .fetch_add(joined.into(), Ordering::Relaxed);
        joined
    }
}

impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lost,
            refused,
            unserved,
            closed,
            excused,
            joined,
            ..
        } = self;
        write!(
            f,
            "{lost:?} lost, {refused:?} errors, {unserved:?} waits too long, {closed:?} interrupted by a close, {excused:?} \
             overlaps after a failover, {joined:?} looks at a token that one brought back"
        )
    }
}

/// Waits until none of the locks with these names is held.
///
/// # Errors
///
/// If one is still held after the leases of all processes that may have died have ended.
pub async fn nothing_is_held(client: &Client, names: impl Iterator<Item = &str>) -> Result<()> {
    let names: Vec<&str> = names.collect();
    until("nobody holds", PATIENCE, async || {
        for name in &names {
            let seen = client.inspect(name).await?;
            if !seen.holders.is_empty() || seen.kind.is_some() {
                return Ok((false, format!("{seen:?}")));
            }
        }
        Ok((true, String::new()))
    })
    .await
}

/// Waits until no keys remain but the last tokens and the labels of clients, all of which expire.
///
/// # Errors
///
/// If another key, or one without expiry, remains after tombstones and leases have ended.
pub async fn nothing_remains(site: &dyn Site) -> Result<()> {
    until("nothing remains", PATIENCE, async || {
        let mut others = Vec::new();
        for key in site.keys().await? {
            let lives: i64 = site.command(&["PTTL", &key]).await?.parse()?;
            if lives == -1 {
                bail!("{key} does not expire");
            }
            if !REMAINS.iter().any(|known| key.starts_with(known)) {
                others.push(key);
            }
        }
        Ok((others.is_empty(), others.join(" ")))
    })
    .await
}
