//! The work of the tasks.

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Acquire, Client, Error, Lease, Lock as _, MultiLock, Redlock, Target};
use lockkeeper_core::{Hold, Plan};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::{Process, Records, TTL};
use crate::history::{ValidSpan, now};
use crate::kinds::{Converted, Held, KindModel, Mode, convert};
use crate::until::PATIENCE;

/// The longest time for one turn, whatever goes wrong: it waits for [`PATIENCE`] at most, and then it must have failed.
const LONGEST: Duration = PATIENCE.saturating_mul(2);

/// What one task does again and again.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Job {
    /// Holds one lock. If its guards can do more, it sometimes does that.
    Single(Single),
    /// Holds several locks at once, and sometimes the mutex of the second server, if there is one.
    Several(Several),
    /// Holds the Redlock with this number on all servers.
    Majority(usize),
}

/// A lock of one server, held in a mode.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Single {
    kind: KindModel,
    mode: Mode,
    number: usize,
    server: usize,
}

/// The only lock of the second server.
const FAR: Single = Single {
    server: 1,
    ..Single::new(KindModel::COHORT, Mode::Write, 0)
};

/// The locks of which a task holds several at once.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "tests make them")]
pub struct Several {
    /// Their kinds.
    pub kinds: &'static [KindModel],
    /// How many names each kind has.
    pub names: usize,
    /// How many names of one kind are held at once at most.
    pub of_each: usize,
    /// How many locks are held at once: at least and at most.
    pub together: [usize; 2],
}

/// The pace of the tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pace {
    /// They hold for a moment, sometimes for as long as a lease, and pause.
    #[default]
    Varied,
    /// They hold only for as long as other tasks need to run, and do not pause.
    Hurried,
    /// The same, and no acquisition is given up.
    Calm,
}

impl Job {
    /// For this many names of each kind on one server: every job of a single lock, this many `times`.
    pub fn of_singles(names: usize, times: usize) -> Vec<Self> {
        let modes = |kind: KindModel| kind.modes.iter().map(move |&mode| (kind, mode));
        let jobs = |(kind, mode)| {
            let numbers = 0..names * times;
            numbers.map(move |number| Self::Single(Single::new(kind, mode, number % names)))
        };
        let kinds = KindModel::UNDER_LOAD.into_iter();
        kinds.flat_map(modes).flat_map(jobs).collect()
    }

    /// Two to four locks of different kinds at once; each kind has this many names.
    pub const fn of_several(names: usize) -> Self {
        Self::Several(Several {
            kinds: &KindModel::UNDER_LOAD,
            names,
            of_each: 1,
            together: [2, 4],
        })
    }

    /// Every job of a single lock once, and one of several locks; each kind has this many names.
    pub fn of_each(names: usize) -> Vec<Self> {
        let mut jobs = Self::of_singles(names, 1);
        jobs.push(Self::of_several(names));
        jobs
    }

    /// For several servers, of which the first has this many names of each kind: every job once per name, and two jobs of
    /// several locks.
    pub fn of_all(names: usize) -> Vec<Self> {
        let mut jobs = Self::of_singles(names, 1);
        jobs.push(Self::Single(FAR));
        jobs.extend([Self::of_several(names); 2]);
        jobs.extend((0..names).map(Self::Majority));
        jobs
    }

    /// This many readers and writers of one name.
    pub fn of_readers_and_writers(tasks: usize) -> Vec<Self> {
        let kind = KindModel::RWLOCK;
        let jobs = kind.modes.iter().cycle().take(tasks);
        jobs.map(|&mode| Self::Single(Single::new(kind, mode, 0)))
            .collect()
    }

    /// The names of its locks.
    pub fn names(self) -> Vec<String> {
        match self {
            Self::Single(lock) => vec![lock.name()],
            Self::Several(Several { kinds, names, .. }) => {
                let names = |kind: &KindModel| {
                    let kind = *kind;
                    (0..names).map(move |number| Single::new(kind, kind.largest(), number).name())
                };
                kinds.iter().flat_map(names).collect()
            }
            Self::Majority(number) => vec![format!("redlock {number}")],
        }
    }

    /// What to acquire, and which of the names are shared.
    fn plan(self, clients: &[Client]) -> lockkeeper::Result<(Plan, Vec<String>)> {
        let locks = match self {
            Self::Single(lock) => vec![lock],
            Self::Several(several) => several.draw(clients.len()),
            Self::Majority(_) => {
                let lock = Redlock::new(clients, &self.names()[0])?;
                return Ok((lock.plan(), Vec::new()));
            }
        };
        let mut targets: Vec<_> = locks.iter().map(|lock| lock.target(clients)).collect();
        let plan = match self {
            Self::Several(_) => MultiLock::new(targets)?.plan(),
            _ => targets.swap_remove(0).into(),
        };
        let shared = locks.iter().filter(|lock| lock.mode.reads());
        Ok((plan, shared.map(Single::name).collect()))
    }
}

impl Single {
    const fn new(kind: KindModel, mode: Mode, number: usize) -> Self {
        let server = 0;
        Self {
            kind,
            mode,
            number,
            server,
        }
    }

    fn name(&self) -> String {
        match self.server {
            0 => format!("{} {}", self.kind.name, self.number),
            _ => "far".to_owned(),
        }
    }

    fn target(&self, clients: &[Client]) -> Target {
        let client = &clients[self.server];
        self.kind.lock(client, &self.name(), self.mode)
    }
}

impl Several {
    /// Chooses locks, for a process with clients of this many servers.
    fn draw(self, servers: usize) -> Vec<Single> {
        let mut locks = Vec::new();
        for &kind in self.kinds {
            let numbers = fastrand::choose_multiple(0..self.names, self.of_each);
            locks.extend(numbers.into_iter().map(|number| {
                let mode = kind.modes[fastrand::usize(..kind.modes.len())];
                Single::new(kind, mode, number)
            }));
        }
        locks.extend((servers > 1).then_some(FAR));
        fastrand::shuffle(&mut locks);
        let [least, most] = self.together;
        locks.truncate(fastrand::usize(least..=most));
        locks
    }
}

impl Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(lock) if lock.mode.reads() => write!(f, "a reader of {}", lock.name()),
            Self::Single(lock) => write!(f, "a holder of {}", lock.name()),
            Self::Several(several) => write!(f, "a holder of several of {} names", several.names),
            Self::Majority(number) => write!(f, "a holder of redlock {number}"),
        }
    }
}

/// Does its job until the time is over and each lock was held as often as it [must be](Records::at_least), each time with the
/// present clients of the process, and records when its leases were valid.
///
/// # Errors
///
/// If a turn hangs, or fails with an error that nothing explains.
pub async fn work(job: Job, process: Process, records: &Records, end: Instant) -> Result<()> {
    let pace = records.pace;
    let latest = end + PATIENCE;
    while Instant::now() < end || !records.is_enough() && Instant::now() < latest {
        let clients = process.clients();
        let turned = timeout(LONGEST, turn(job, &clients, Some(records), pace, PATIENCE)).await;
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match turned.with_context(|| format!("{job} hangs"))? {
            Ok(()) => {}
            Err(Error::Timeout { .. }) => count(&records.unserved),
            Err(Error::Lost { .. }) => count(&records.lost),
            Err(Error::Closed) => {
                count(&records.closed);
                sleep(Duration::from_millis(10)).await;
            }
            Err(error) if is_explained(&error) => {
                count(&records.refused);
                sleep(Duration::from_millis(10)).await;
            }
            Err(error) => return Err(error).with_context(|| job.to_string()),
        }
        if pace == Pace::Varied {
            // A task that wants several locks at once is served only when all of them are free.
            sleep(Duration::from_millis(fastrand::u64(..10))).await;
        }
    }
    Ok(())
}

/// Whether an unreachable server explains the error.
fn is_explained(error: &Error) -> bool {
    match error {
        Error::Partial { failures, .. } => failures.iter().all(|(_, error)| is_explained(error)),
        Error::Lost { .. } | Error::Closed => true,
        error => error.is_transient(),
    }
}

/// Lets every job be done once when nothing goes wrong any more.
///
/// # Errors
///
/// If one is not done soon.
pub async fn serve(jobs: &[Job], process: &Process, records: &Records) -> Result<()> {
    let clients = process.clients();
    ensure!(!jobs.is_empty(), "there is nobody to be served");
    for &job in jobs {
        let latest = Instant::now() + PATIENCE;
        loop {
            let turned = turn(job, &clients, Some(records), Pace::Calm, PATIENCE);
            let turned = timeout(LONGEST, turned).await;
            match turned.with_context(|| format!("{job} hangs"))? {
                // On a slow machine a short lease is lost without a fault.
                Err(error) if is_explained(&error) && Instant::now() < latest => {
                    sleep(Duration::from_millis(10)).await;
                }
                turned => break turned.with_context(|| format!("{job} is not served"))?,
            }
        }
    }
    Ok(())
}

/// Does its job once, waiting at most for the given time, and records how long its leases were valid for certain.
///
/// # Errors
///
/// As for acquiring and releasing.
pub async fn turn(
    job: Job,
    clients: &[Client],
    records: Option<&Records>,
    pace: Pace,
    patience: Duration,
) -> lockkeeper::Result<()> {
    // At random, but never in a calm.
    let one_in = |turns: u32| pace != Pace::Calm && fastrand::u32(..turns) == 0;
    let (plan, shared) = job.plan(clients)?;
    let asking = Acquire::<Hold>::new(plan).wait_for(patience).into_future();
    let asked = if one_in(16) {
        let moment = Duration::from_millis(fastrand::u64(..50));
        timeout(moment, asking).await.ok().transpose()?
    } else {
        Some(asking.await?)
    };
    let Some(hold) = asked else {
        return Ok(());
    };
    let leases = match job {
        Job::Several(Several {
            together: [least, most],
            ..
        }) => {
            let parts = hold.parts();
            assert!((least..=most).contains(&parts.len()), "{parts:?}");
            parts
        }
        _ => vec![hold.lease().clone()],
    };
    let is_shared = |lease: &Lease| shared.iter().any(|name| name == lease.name());
    let leases = leases.into_iter().map(|lease| {
        let shared = is_shared(&lease);
        (lease, shared)
    });
    let note_one =
        async |hold: &Hold, shared| note(records, pace, &[(hold.lease().clone(), shared)]).await;
    let mut held = Held {
        hold,
        reads: !shared.is_empty(),
    };
    let can = |what: fn(&KindModel) -> bool| matches!(job, Job::Single(lock) if what(&lock.kind));
    // A claim inside another one has its token, and each token is recorded once.
    if can(|kind| kind.reenters && !kind.has_modes()) && one_in(2) {
        let inner = held.hold.reenter().await?;
        note_one(&inner, false).await;
        inner.release().await?;
    } else {
        note(records, pace, &leases.collect::<Vec<_>>()).await;
    }
    if can(|kind| kind.converts_modes) && one_in(2) {
        held = match convert(held).await? {
            Converted::Done(held) => {
                note_one(&held.hold, held.reads).await;
                held
            }
            Converted::Refused(held) => held,
        };
    }
    if one_in(8) {
        return Ok(());
    }
    held.hold.release().await.map(drop)
}

/// Holds for a moment, according to the pace, and records how long all leases were valid for certain.
async fn note(records: Option<&Records>, pace: Pace, leases: &[(Lease, bool)]) {
    let from = now();
    let begun = Instant::now();
    let (time, pause) = match pace {
        Pace::Hurried => (Duration::ZERO, 1),
        Pace::Varied if fastrand::u32(..60) == 0 => (TTL * fastrand::u32(1..12) / 10, 20),
        _ => (Duration::from_millis(fastrand::u64(..8)), 3),
    };
    if pace == Pace::Hurried {
        yield_now().await;
    }
    let mut until = None;
    loop {
        // Read before the checks, which say that the leases were valid then.
        let before = now();
        if leases.iter().any(|(lease, _)| lease.ensure_held().is_err()) {
            break;
        }
        until = Some(before);
        if begun.elapsed() >= time {
            break;
        }
        sleep(Duration::from_millis(fastrand::u64(..pause))).await;
    }
    let (Some(until), Some(records)) = (until, records) else {
        return;
    };
    for (lease, shared) in leases {
        let span = ValidSpan {
            from,
            until,
            token: lease.fencing_token().get(),
            shared: *shared,
            holder: format!("process {}: {lease:?}", std::process::id()),
        };
        let recorded = records.record(lease.name(), span);
        debug_assert!(recorded.is_ok(), "{recorded:?}");
    }
}
