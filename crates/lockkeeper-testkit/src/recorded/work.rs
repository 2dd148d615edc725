//! What the tasks do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, Error, FairLock, Guard, Lease, MultiLock, Mutex, Redlock, ReentrantLock, RwLock,
    Target, Upgrade,
};
use tokio::time::{sleep, timeout};

use super::{Process, Records, SOON, TTL};
use crate::common::Common;
use crate::history::{Belief, now};

/// How long somebody may be busy in the worst of weathers: by then it has been told that it was not served.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one task does again and again, with locks of this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Holds a mutex.
    Mutex(usize),
    /// Holds a re-entrant lock, now and then twice.
    Reentrant(usize),
    /// Holds a fair lock.
    Fair(usize),
    /// Reads, and writes after that if it is alone.
    Read(usize),
    /// Writes, and reads after that now and then.
    Write(usize),
    /// Holds the mutex of the second server.
    Far,
    /// Holds several locks of the jobs above at once, drawn from this many of each kind.
    Several(usize),
    /// Holds a Redlock on all servers.
    Majority(usize),
}

impl Job {
    /// For this many names of each kind on one server: every job of a single lock so many times.
    pub fn of_singles(names: usize, times: usize) -> Vec<Self> {
        let kinds = [
            Self::Mutex,
            Self::Reentrant,
            Self::Fair,
            Self::Read,
            Self::Write,
        ];
        let of_kind = |kind: fn(usize) -> Self| (0..names * times).map(move |n| kind(n % names));
        kinds.into_iter().flat_map(of_kind).collect()
    }

    /// On several servers, of which the first keeps this many names of each kind: every job once for each name, and two of
    /// several locks.
    pub fn of_all(names: usize) -> Vec<Self> {
        let mut jobs = Self::of_singles(names, 1);
        jobs.extend([Self::Far, Self::Several(names), Self::Several(names)]);
        jobs.extend((0..names).map(Self::Majority));
        jobs
    }

    /// The locks that it holds.
    pub fn names(self) -> Vec<String> {
        match self {
            Self::Mutex(number) => vec![format!("mutex {number}")],
            Self::Reentrant(number) => vec![format!("reentrant {number}")],
            Self::Fair(number) => vec![format!("fair {number}")],
            Self::Read(number) | Self::Write(number) => vec![format!("rwlock {number}")],
            Self::Far => vec!["far".to_owned()],
            Self::Several(names) => {
                let singles = Self::of_singles(names, 1);
                singles.into_iter().flat_map(Self::names).collect()
            }
            Self::Majority(number) => vec![format!("redlock {number}")],
        }
    }
}

/// Does its job until the time is over, with the clients that the process has at each turn, and writes down what it believed.
///
/// # Errors
///
/// If it hangs, or an error that nothing explains.
pub async fn work(job: Job, process: Process, records: &Records, end: Instant) -> Result<()> {
    while Instant::now() < end {
        let clients = process.clients();
        let turn = Turn {
            clients: &clients,
            records,
            calm: false,
        };
        let turned = timeout(PATIENCE, turn.take(job)).await;
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
        // Whoever wants several at once is served only when all of them are free.
        sleep(Duration::from_millis(fastrand::u64(..10))).await;
    }
    Ok(())
}

/// Whether a server out of reach explains it.
fn is_explained(error: &Error) -> bool {
    match error {
        Error::Partial { failures, .. } => failures.iter().all(|(_, error)| is_explained(error)),
        Error::Lost { .. } | Error::Closed => true,
        error => error.is_transient(),
    }
}

/// Lets everybody be served once, when nothing goes wrong any more.
///
/// # Errors
///
/// If one is not, soon.
pub async fn serve(jobs: &[Job], process: &Process, records: &Records) -> Result<()> {
    let clients = process.clients();
    let turn = Turn {
        clients: &clients,
        records,
        calm: true,
    };
    let mut served = Vec::new();
    for &job in jobs {
        if served.contains(&job) {
            continue;
        }
        let turned = timeout(SOON * 2, turn.take(job)).await;
        let turned = turned.with_context(|| format!("{job:?} hangs"))?;
        turned.with_context(|| format!("{job:?} is not served"))?;
        served.push(job);
    }
    ensure!(!served.is_empty(), "there is nobody to be served");
    Ok(())
}

/// One time of doing a job.
#[derive(Clone, Copy)]
struct Turn<'a> {
    clients: &'a [Client],
    records: &'a Records,
    /// Nothing is given up, and nothing is held for long.
    calm: bool,
}

type Taken<T = ()> = lockkeeper::Result<T>;

impl Turn<'_> {
    async fn take(self, job: Job) -> Taken {
        let client = &self.clients[0];
        let name = job.names().swap_remove(0);
        match job {
            Job::Mutex(_) => self.hold(Mutex::new(client, &name), &name).await,
            Job::Reentrant(_) => self.reenter(ReentrantLock::new(client, &name)).await,
            Job::Fair(_) => self.hold(FairLock::new(client, &name), &name).await,
            Job::Read(_) if self.one_in(2) => {
                self.hold(RwLock::new(client, &name).reader(), &name).await
            }
            Job::Read(_) => self.read_and_write(RwLock::new(client, &name)).await,
            Job::Write(_) if self.one_in(2) => {
                self.hold(RwLock::new(client, &name).writer(), &name).await
            }
            Job::Write(_) => self.write_and_read(RwLock::new(client, &name)).await,
            Job::Far => {
                let lock = Mutex::new(&self.clients[1], &name);
                self.hold(lock, &name).await
            }
            Job::Several(names) => self.hold_several(names).await,
            Job::Majority(_) => {
                let lock = <Redlock as Common>::new(&self.clients.to_vec(), &name);
                self.hold(lock, &name).await
            }
        }
    }

    /// By chance, but never in a calm.
    fn one_in(self, turns: u32) -> bool {
        !self.calm && fastrand::u32(..turns) == 0
    }

    /// Waits for a guard, or gives it up after a moment.
    async fn patiently<G>(self, asking: impl Future<Output = Taken<G>>) -> Taken<Option<G>> {
        if self.one_in(16) {
            let moment = Duration::from_millis(fastrand::u64(..50));
            return timeout(moment, asking).await.ok().transpose();
        }
        asking.await.map(Some)
    }

    /// Holds for a moment, now and then for as long as a lease, and writes down for how long all of it was certain.
    async fn believe(self, holds: &[(&str, &Lease, bool)]) {
        let from = now();
        let begun = Instant::now();
        let (time, pause) = match self.one_in(60) {
            true => (TTL * fastrand::u32(1..12) / 10, 20),
            false => (Duration::from_millis(fastrand::u64(..8)), 3),
        };
        let mut until = None;
        loop {
            // Read before the looks, which say that it was true then.
            let before = now();
            if holds
                .iter()
                .any(|(_, lease, _)| lease.ensure_held().is_err())
            {
                break;
            }
            until = Some(before);
            if begun.elapsed() >= time {
                break;
            }
            sleep(Duration::from_millis(fastrand::u64(..pause))).await;
        }
        let Some(until) = until else { return };
        for (name, lease, shared) in holds {
            let belief = Belief {
                from,
                until,
                token: lease.fencing_token().get(),
                shared: *shared,
                who: format!("process {}: {lease:?}", std::process::id()),
            };
            let recorded = self.records.record(name, belief);
            debug_assert!(recorded.is_ok(), "{recorded:?}");
        }
    }

    async fn hold<C: Common>(self, lock: C, name: &str) -> Taken {
        let asking = lock.acquire().wait_for(SOON).into_future();
        let Some(guard) = self.patiently(asking).await? else {
            return Ok(());
        };
        self.believe(&[(name, &*guard, C::SHARED)]).await;
        if self.one_in(8) {
            drop(guard);
            return Ok(());
        }
        Guard::release(guard).await.map(drop)
    }

    async fn reenter(self, lock: ReentrantLock) -> Taken {
        let owner = self.clients[0].new_owner();
        let asking = lock.acquire().owner(&owner).wait_for(SOON).into_future();
        let Some(guard) = self.patiently(asking).await? else {
            return Ok(());
        };
        if self.one_in(2) {
            let inner = guard.reenter().await?;
            self.believe(&[(inner.name(), &*inner, false)]).await;
            inner.release().await?;
        } else {
            self.believe(&[(guard.name(), &*guard, false)]).await;
        }
        guard.release().await.map(drop)
    }

    async fn write_and_read(self, lock: RwLock) -> Taken {
        let asking = lock.write().wait_for(SOON).into_future();
        let Some(guard) = self.patiently(asking).await? else {
            return Ok(());
        };
        self.believe(&[(guard.name(), &*guard, false)]).await;
        let guard = guard.downgrade().await?;
        self.believe(&[(guard.name(), &*guard, true)]).await;
        guard.release().await.map(drop)
    }

    async fn read_and_write(self, lock: RwLock) -> Taken {
        let asking = lock.read().wait_for(SOON).into_future();
        let Some(guard) = self.patiently(asking).await? else {
            return Ok(());
        };
        self.believe(&[(guard.name(), &*guard, true)]).await;
        match guard.try_upgrade().await? {
            Upgrade::Busy(guard) => guard.release().await.map(drop),
            Upgrade::Write(guard) => {
                self.believe(&[(guard.name(), &*guard, false)]).await;
                guard.release().await.map(drop)
            }
        }
    }

    async fn hold_several(self, names: usize) -> Taken {
        let mut members = self.draw(names);
        fastrand::shuffle(&mut members);
        members.truncate(fastrand::usize(2..=4));
        let (members, modes): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let lock = MultiLock::new(members)?;
        let asking = lock.acquire().wait_for(SOON).into_future();
        let Some(guard) = self.patiently(asking).await? else {
            return Ok(());
        };
        let shared = |lease: &Lease| {
            modes
                .iter()
                .any(|(name, shared)| *shared && name == lease.name())
        };
        let parts = guard.parts();
        let holds = parts
            .iter()
            .map(|lease| (lease.name(), lease, shared(lease)));
        self.believe(&holds.collect::<Vec<_>>()).await;
        if self.one_in(8) {
            drop(guard);
            return Ok(());
        }
        guard.release().await.map(drop)
    }

    /// One lock of each kind, by its name and whether its holders share it.
    fn draw(self, names: usize) -> Vec<(Target, (String, bool))> {
        let client = &self.clients[0];
        let draw = |kind: fn(usize) -> Job| kind(fastrand::usize(..names)).names().swap_remove(0);
        let [mutex, reentrant] = [draw(Job::Mutex), draw(Job::Reentrant)];
        let [fair, rwlock] = [draw(Job::Fair), draw(Job::Read)];
        let reads = fastrand::bool();
        let book = RwLock::new(client, &rwlock);
        let mut members = vec![
            (Mutex::new(client, &mutex).target(), (mutex, false)),
            (
                ReentrantLock::new(client, &reentrant).target(),
                (reentrant, false),
            ),
            (FairLock::new(client, &fair).target(), (fair, false)),
            (
                if reads {
                    book.reader().target()
                } else {
                    book.writer().target()
                },
                (rwlock, reads),
            ),
        ];
        if let Some(second) = self.clients.get(1) {
            let far = Job::Far.names().swap_remove(0);
            members.push((Mutex::new(second, &far).target(), (far, false)));
        }
        members
    }
}
