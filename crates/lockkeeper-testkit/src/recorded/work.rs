//! The work of the tasks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Acquire, Client, Error, Lease, Lock as _, MultiLock, ReadGuard, Redlock, Target, Upgrade,
    WriteGuard,
};
use lockkeeper_core::{Hold, Plan};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::{Process, Records, SOON, TTL};
use crate::history::{ValidSpan, now};
use crate::kinds::{KindModel, Mode};

/// The longest time for one turn, whatever goes wrong: by then it must have failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one task does again and again, with the locks of this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Holds a mutex.
    Mutex(usize),
    /// Holds a re-entrant lock, sometimes twice.
    Reentrant(usize),
    /// Holds a fair lock.
    Fair(usize),
    /// Reads, and then sometimes writes if it is alone.
    Read(usize),
    /// Writes, and then sometimes reads.
    Write(usize),
    /// Holds the one permit of a semaphore.
    Semaphore(usize),
    /// Holds the mutex of the second server.
    Far,
    /// Holds several locks of the jobs above at once, chosen from this many names of each kind.
    Several(usize),
    /// Holds a Redlock on all servers.
    Majority(usize),
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
        let kinds = [
            Self::Mutex,
            Self::Reentrant,
            Self::Fair,
            Self::Read,
            Self::Write,
            Self::Semaphore,
        ];
        let of_kind = |kind: fn(usize) -> Self| (0..names * times).map(move |n| kind(n % names));
        kinds.into_iter().flat_map(of_kind).collect()
    }

    /// For several servers, of which the first has this many names of each kind: every job once per name, and two jobs of
    /// several locks.
    pub fn of_all(names: usize) -> Vec<Self> {
        let mut jobs = Self::of_singles(names, 1);
        jobs.extend([Self::Far, Self::Several(names), Self::Several(names)]);
        jobs.extend((0..names).map(Self::Majority));
        jobs
    }

    /// This many readers and writers of one name.
    pub fn of_readers_and_writers(tasks: usize) -> Vec<Self> {
        let modes = [Self::Read(0), Self::Write(0)];
        modes.into_iter().cycle().take(tasks).collect()
    }

    /// The names of its locks.
    pub fn names(self) -> Vec<String> {
        match self {
            Self::Several(names) => {
                let singles = Self::of_singles(names, 1);
                singles.into_iter().flat_map(Self::names).collect()
            }
            _ => vec![self.name()],
        }
    }

    /// The name of its lock, if there is only one.
    fn name(self) -> String {
        match self {
            Self::Mutex(number)
            | Self::Reentrant(number)
            | Self::Fair(number)
            | Self::Read(number)
            | Self::Write(number)
            | Self::Semaphore(number)
            | Self::Majority(number) => format!("{} {number}", self.kind().0.name),
            Self::Far => "far".to_owned(),
            Self::Several(_) => String::new(),
        }
    }

    /// The kind of its lock, and how it holds it.
    const fn kind(self) -> (KindModel, Mode) {
        match self {
            Self::Mutex(_) | Self::Far | Self::Several(_) => (KindModel::COHORT, Mode::Write),
            Self::Reentrant(_) => (KindModel::QUEUED_REENTRANT, Mode::Write),
            Self::Fair(_) => (KindModel::FAIR, Mode::Write),
            Self::Read(_) => (KindModel::RWLOCK, Mode::Read),
            Self::Write(_) => (KindModel::RWLOCK, Mode::Write),
            Self::Semaphore(_) => {
                let (permits, limit) = (1, 1);
                (KindModel::SEMAPHORE, Mode::Permits { permits, limit })
            }
            Self::Majority(_) => (KindModel::REDLOCK, Mode::Write),
        }
    }

    /// Its lock on one server, and whether holders share it.
    fn target(self, clients: &[Client]) -> (Target, bool) {
        let (client, (kind, mode)) = (&clients[usize::from(self == Self::Far)], self.kind());
        (kind.lock(client, &self.name(), mode), mode.reads())
    }

    /// What to acquire, and which of the names are shared.
    fn plan(self, clients: &[Client]) -> lockkeeper::Result<(Plan, Vec<String>)> {
        let singles = match self {
            Self::Majority(_) => {
                return Ok((Redlock::new(clients, &self.name())?.plan(), Vec::new()));
            }
            Self::Several(names) => {
                let mut kinds = vec![Self::Mutex, Self::Reentrant, Self::Fair, Self::Semaphore];
                kinds.push(fastrand::choice([Self::Read, Self::Write]).unwrap_or(Self::Read));
                let draw = |kind: fn(usize) -> Self| kind(fastrand::usize(..names));
                let mut jobs: Vec<Self> = kinds.into_iter().map(draw).collect();
                jobs.extend((clients.len() > 1).then_some(Self::Far));
                fastrand::shuffle(&mut jobs);
                jobs.truncate(fastrand::usize(2..=4));
                jobs
            }
            single => vec![single],
        };
        let targets = singles.into_iter().map(|job| job.target(clients));
        let (mut targets, shared): (Vec<_>, Vec<_>) = targets
            .map(|(target, shared)| {
                let name = shared.then(|| target.name().to_owned());
                (target, name)
            })
            .unzip();
        let shared = shared.into_iter().flatten().collect();
        Ok(match self {
            Self::Several(_) => (MultiLock::new(targets)?.plan(), shared),
            _ => (targets.swap_remove(0).into(), shared),
        })
    }
}

/// Does its job until the time is over, each time with the present clients of the process, and records when its leases were
/// valid.
///
/// # Errors
///
/// If a turn hangs, or fails with an error that nothing explains.
pub async fn work(job: Job, process: Process, records: &Records, end: Instant) -> Result<()> {
    let pace = records.pace;
    while Instant::now() < end {
        let clients = process.clients();
        let turned = timeout(PATIENCE, turn(job, &clients, Some(records), pace, SOON)).await;
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match turned.with_context(|| format!("{job:?} hangs"))? {
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
            Err(error) => return Err(error).with_context(|| format!("{job:?}")),
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
    let mut served = Vec::new();
    for &job in jobs {
        if served.contains(&job) {
            continue;
        }
        let turned = turn(job, &clients, Some(records), Pace::Calm, SOON);
        let turned = timeout(SOON * 2, turned).await;
        let turned = turned.with_context(|| format!("{job:?} hangs"))?;
        turned.with_context(|| format!("{job:?} is not served"))?;
        served.push(job);
    }
    ensure!(!served.is_empty(), "there is nobody to be served");
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
        Job::Several(_) => hold.parts(),
        _ => vec![hold.lease().clone()],
    };
    let is_shared = |lease: &Lease| shared.iter().any(|name| name == lease.name());
    let leases = leases.into_iter().map(|lease| {
        let shared = is_shared(&lease);
        (lease, shared)
    });
    // A claim inside another one has its token, and each token is recorded once.
    let reenters = matches!(job, Job::Reentrant(_)) && one_in(2);
    if !reenters {
        note(records, pace, &leases.collect::<Vec<_>>()).await;
    }
    let note_one =
        async |hold: &Hold, shared| note(records, pace, &[(hold.lease().clone(), shared)]).await;
    let hold = match job {
        Job::Reentrant(_) if reenters => {
            let inner = hold.reenter().await?;
            note_one(&inner, false).await;
            inner.release().await?;
            hold
        }
        Job::Read(_) if one_in(2) => match ReadGuard::from(hold).try_upgrade().await? {
            Upgrade::Busy(guard) => guard.into(),
            Upgrade::Write(guard) => {
                let hold = guard.into();
                note_one(&hold, false).await;
                hold
            }
        },
        Job::Write(_) if one_in(2) => {
            let hold = WriteGuard::from(hold).downgrade().await?.into();
            note_one(&hold, true).await;
            hold
        }
        _ if one_in(8) => return Ok(()),
        _ => hold,
    };
    hold.release().await.map(drop)
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
