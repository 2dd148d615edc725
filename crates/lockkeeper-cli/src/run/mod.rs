//! `run`: runs a program under a lock, from the wait for the lock to the exit code.

mod family;
mod guard;
mod job;
mod journal;
mod outage;
mod plan;
mod scribe;
mod shim;
mod signals;
mod terminal;
mod tie;
mod turn;
mod waiting;
mod watcher;

use std::mem::forget;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper::{Client, Error, Lease, LeaseEvent, Observed, Observer};

use crate::args::Run;
use crate::exit::{Failure, LOST, SIGNALLED};
use crate::kind::{Held, Mode, Wanted};
use crate::server::Server;
use crate::slots::Due;
use guard::{End, Guard};
use job::Job;
use journal::{Event, Journal, millis};
use outage::Outage;
use plan::Plan;
use signals::Signals;
use turn::{Turn, is_stored};
use watcher::Watcher;

pub(crate) use shim::{SHIM, become_program};
pub(crate) use watcher::{WATCHER, watch_over};

/// How long the end of a run may take to tell the server that a waiter is gone or a lease is lost, and to let a reader read the
/// last events. Nothing depends on either.
const FAREWELL: Duration = Duration::from_secs(1);

/// When a waiter in a queue is granted the lock, its first lease lasts one waiter ttl, counted from its last heartbeat, which may
/// be a third of a waiter ttl ago. A waiter ttl of this many [leads](Plan::lead), or as long as the lease if that is shorter, ensures
/// that the program is not stopped before the first renewal.
const LEADS_PER_WAITER_TTL: u32 = 6;

/// How many holders of a lock a message names.
const MOST_NAMED: usize = 10;

/// The default of the library, in which a year is the maximum.
const LEAST_WAITER_TTL: Duration = Duration::from_secs(10);

/// Acquires the lock, runs the program and releases the lock. Returns the exit code.
pub(crate) async fn run(server: &Server, options: &Run, json: bool) -> Result<u8, Failure> {
    let wanted = Wanted::new(options)?;
    let plan = Plan::new(options)?;
    let journal = Journal::open(options, json)?;
    let ended = hold_each(server, options, &wanted, plan, &journal).await;
    journal.close(FAREWELL);
    ended
}

/// Holds the lock once, or once for each slot that is due. It stops after a program that did not end by itself, and after a signal
/// that asks to stop. A slot that fails does not stop the others; the exit code is that of the first one that failed.
async fn hold_each(
    server: &Server,
    options: &Run,
    wanted: &Wanted,
    plan: Plan,
    journal: &Journal,
) -> Result<u8, Failure> {
    let mut signals = Signals::listen()?;
    let (mut tried, mut failed) = (Vec::new(), 0);
    loop {
        let before = tried.len();
        let held = hold(
            server,
            options,
            wanted,
            plan,
            &mut signals,
            &mut tried,
            journal,
        );
        let code = held.await?;
        if failed == 0 {
            failed = code;
        }
        let last = tried.last().filter(|_| tried.len() > before);
        let more = last.zip(wanted.slots());
        let more = more.is_some_and(|(slot, slots)| !slots.ends_with(slot));
        if !more || signals.stop() || code > SIGNALLED {
            return Ok(failed);
        }
    }
}

/// Holds the lock for one program. If the program has ended for a slot, adds the slot to `tried`.
async fn hold(
    server: &Server,
    options: &Run,
    wanted: &Wanted,
    plan: Plan,
    signals: &mut Signals,
    tried: &mut Vec<String>,
    journal: &Journal,
) -> Result<u8, Failure> {
    let outage = Outage::new(wanted.wait, journal);
    // The watcher starts while the run waits for the lock.
    let watcher = Watcher::start()?;
    let other_limit = Arc::<OtherLimit>::default();
    let settings = Client::builder()
        .observer(Arc::clone(&other_limit) as Arc<dyn Observer>)
        .ttl(options.ttl)
        .waiter_ttl(LEAST_WAITER_TTL.max(plan.lead() * LEADS_PER_WAITER_TTL));
    let client = tokio::select! {
        biased;
        signal = signals.next() => return Ok(signalled(signal)),
        client = outage.connect(server, &settings) => client?,
    };
    for name in wanted.names() {
        journal.tell(&Event::Asking { name });
    }
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => {
            farewell(&client).await;
            return Ok(signalled(signal));
        }
        outcome = acquire(wanted, &client, &outage, options.ttl, &other_limit, tried, journal) => outcome,
    };
    other_limit.tell(wanted, journal);
    let (held, turn) = match outcome {
        Ok(held) => held,
        Err(refused) => {
            let ended = give_up(refused, &client, wanted, options, journal).await;
            farewell(&client).await;
            return ended;
        }
    };
    let slot = turn.as_ref().map(|turn| &*turn.slot);
    let variables = variables(&held.leases, wanted, slot, options, journal);
    let job = match Job::start(&options.program, &variables, watcher) {
        Ok(job) => job,
        Err(failure) => {
            part(held, &client, failure.code).await;
            return Err(failure);
        }
    };
    let guard = Guard::new(plan, options.keep, &held.leases, journal, signals);
    let end = guard.watch(job).await;
    if let (Ok(End::Ended(code)), Some(turn)) = (&end, turn) {
        tried.push(turn.slot.clone());
        turn.end(*code, server.label()?, wanted, &held)?;
    }
    finish(end, held, &client, journal).await
}

/// Why the run has no lock.
enum Refused {
    Lock(Error),
    /// The outer run no longer holds, or the history of the job cannot be read.
    Failed(Failure),
    /// No slot is due.
    NotDue(Due),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

/// Reports why nothing is run, and returns the exit code.
async fn give_up(
    refused: Refused,
    client: &Client,
    wanted: &Wanted,
    options: &Run,
    journal: &Journal,
) -> Result<u8, Failure> {
    let name = match refused {
        Refused::Lock(Error::Timeout { name, .. } | Error::QueueFull { name, .. }) => name,
        Refused::Lock(error) => return Err(error.into()),
        Refused::Failed(failure) => return Err(failure),
        Refused::NotDue(due) => return Ok(turn::not_due(due, wanted, options, journal)),
    };
    let text = conflict(client, &name, wanted, journal).await?;
    Ok(tell_conflict(&text, options, journal))
}

fn tell_conflict(text: &str, options: &Run, journal: &Journal) -> u8 {
    // With exit code 0 this is a normal outcome, and must not make cron send a mail.
    match options.conflict_exit_code {
        0 => journal.remark(text),
        _ => journal.say(text),
    }
    options.conflict_exit_code
}

/// The semaphore's present limit, if it differs from the requested one; 0 if there is nothing to report.
#[derive(Debug, Default)]
struct OtherLimit(AtomicU32);

impl Observer for OtherLimit {
    fn on_lease(&self, _: &Observed<'_>, _: &str, event: LeaseEvent) {
        if let LeaseEvent::OtherLimit { limit, .. } = event {
            self.0.store(limit, Ordering::Relaxed);
        }
    }
}

impl OtherLimit {
    /// Reports it once.
    fn tell(&self, wanted: &Wanted, journal: &Journal) {
        let limit = self.0.swap(0, Ordering::Relaxed);
        if let (Some(name), true) = (wanted.names().last(), limit > 0) {
            journal.say(&format!(
                "others use {name:?} with a limit of {limit}, which applies while anybody uses it; `lockkeeper limit` changes it"
            ));
            journal.tell(&Event::OtherLimit { name, limit });
        }
    }
}

/// Acquires the locks. While it waits for them, it reports that on a terminal.
async fn acquire(
    wanted: &Wanted,
    client: &Client,
    outage: &Outage<'_>,
    ttl: Duration,
    other_limit: &OtherLimit,
    tried: &[String],
    journal: &Journal,
) -> Result<(Held, Option<Turn>), Refused> {
    const PATIENCE: Duration = Duration::from_millis(500);
    let remark = async {
        tokio::time::sleep(PATIENCE).await;
        waiting::tell(client, wanted, journal).await;
        other_limit.tell(wanted, journal);
        outage.watch(client, &wanted.names()[0], ttl).await
    };
    let held = async {
        if let Some(failure) = wanted.outlived_by_now(client).await {
            return Err(Refused::Failed(failure));
        }
        let turn = async || {
            let turn = Turn::next(wanted, client, outage, tried).await;
            turn.map_err(Refused::Failed)?.map_err(Refused::NotDue)
        };
        // Asked before the lock is acquired too, so that a run whose slot is done takes no lock and delays no other run.
        turn().await?;
        let held = wanted.acquire(client, outage.left()).await?;
        // If the locks are not needed, `held` is dropped, which releases them.
        match wanted.outlived(&held.leases) {
            Some(failure) => Err(Refused::Failed(failure)),
            None => Ok((held, turn().await?)),
        }
    };
    tokio::select! {
        biased;
        held = held => held,
        never = remark => match never {},
    }
}

/// Describes who holds the lock called `name`, which is one of the wanted ones. Returns an error if the server cannot be reached,
/// because then nobody knows.
async fn conflict(
    client: &Client,
    name: &str,
    wanted: &Wanted,
    journal: &Journal,
) -> lockkeeper::Result<String> {
    let (limit, holders) = match client.inspect(name).await {
        Ok(seen) => (seen.limit, seen.holders),
        Err(error) if error.is_transient() => return Err(error),
        // The user may lack the right to look.
        Err(_) => (None, Vec::new()),
    };
    let all_share = !holders.is_empty() && holders.iter().all(|holder| holder.shared);
    let permits = holders.iter().filter_map(|holder| holder.permits);
    let permits = permits.fold(0, u32::saturating_add);
    let (held, behind) = match (limit, wanted.permits(), wanted.mode()) {
        (Some(limit), Some(wanted), _) => (
            format!("has {permits} of {limit} permits held"),
            match permits.saturating_add(wanted.taken) <= limit {
                true => ", and another waits in front for more than are free",
                false => "",
            },
        ),
        // Holders that share a lock do not exclude a run that would share it too, so another waiter must be in front.
        (_, _, Some(Mode::Shared)) if all_share => (
            "is shared".to_owned(),
            ", and another waits in front to hold it alone",
        ),
        _ if all_share => ("is shared".to_owned(), ""),
        _ => ("is held".to_owned(), ""),
    };
    let holders: Vec<String> = holders
        .into_iter()
        .map(|holder| waiting::described(&holder))
        .collect();
    let by = match holders.is_empty() {
        true => "an unknown holder".to_owned(),
        false => waiting::some_of(&holders),
    };
    journal.tell(&Event::Conflict { name, holders });
    Ok(format!("{name:?} {held} by {by}{behind}"))
}

/// Returns the environment variables that describe the locks. If there are several locks, each has one line. `None`: the variable
/// is removed.
fn variables(
    leases: &[Lease],
    wanted: &Wanted,
    slot: Option<&str>,
    options: &Run,
    journal: &Journal,
) -> Vec<(&'static str, Option<String>)> {
    let Some(first) = leases.first() else {
        return Vec::new();
    };
    // All leases belong to one client and therefore have the same owner.
    let owner = first.owner().to_string();
    let mode = wanted.mode().map(Mode::as_str);
    let permits = wanted.permits().map(|permits| permits.taken);
    let ttl_ms = millis(options.ttl);
    for (place, lease) in leases.iter().enumerate() {
        // The semaphore is the last.
        let permits = permits.filter(|_| place + 1 == leases.len());
        journal.tell(&Event::Granted {
            name: lease.name(),
            kind: lease.kind().as_str(),
            mode: mode.filter(|_| permits.is_none()),
            permits,
            slot,
            owner: &owner,
            fence: lease.fencing_token().get(),
            ttl_ms,
        });
    }
    let lines = |part: fn(&Lease) -> String| -> String {
        leases.iter().map(part).collect::<Vec<_>>().join("\n")
    };
    let name = lines(|lease| lease.name().to_owned());
    let kind = lines(|lease| lease.kind().as_str().to_owned());
    let fence = lines(|lease| lease.fencing_token().to_string());
    vec![
        ("LOCKKEEPER_NAME", Some(name)),
        ("LOCKKEEPER_KIND", Some(kind)),
        // Variables of an outer run do not apply to this lock, so they are replaced or removed.
        ("LOCKKEEPER_MODE", mode.map(str::to_owned)),
        ("LOCKKEEPER_PERMITS", permits.map(|it| it.to_string())),
        ("LOCKKEEPER_SLOT", slot.map(str::to_owned)),
        ("LOCKKEEPER_OWNER", Some(owner)),
        ("LOCKKEEPER_FENCE", Some(fence)),
        ("LOCKKEEPER_TTL_MS", Some(ttl_ms.to_string())),
    ]
}

/// Releases the lock after the program has ended.
async fn finish(
    end: Result<End, Failure>,
    held: Held,
    client: &Client,
    journal: &Journal,
) -> Result<u8, Failure> {
    let code = match end {
        Ok(End::Ended(code)) => code,
        Ok(End::Unlocked(code)) => return Ok(part(held, client, code).await),
        Ok(End::Stopped) => return Ok(part(held, client, LOST).await),
        // `held` is not dropped, because that would release the lock while something may still run.
        Ok(End::Immortal) => {
            forget(held);
            journal.say("the program cannot be killed; its lock is not released, and expires");
            let reason = "the program cannot be killed";
            journal.tell(&Event::Expiring { reason });
            return Ok(LOST);
        }
        Err(failure) => {
            forget(held);
            return Err(failure);
        }
    };
    let job = held.job();
    let released = match (held.release().await, job) {
        (Err(error), Some(lease)) if was_lost(&error) => {
            let fence = lease.fencing_token().get();
            match is_stored(client, lease.name(), fence).await {
                true => Ok(Duration::ZERO),
                false => Err(error),
            }
        }
        (released, _) => released,
    };
    let code = match released {
        Ok(kept) => {
            let kept_ms = millis(kept);
            journal.tell(&Event::Released { kept_ms });
            code
        }
        Err(error) => {
            let reason = &*error.to_string();
            if was_lost(&error) {
                journal.say(reason);
                journal.tell(&Event::Lost { reason });
                LOST
            } else {
                journal.say(&format!("{reason}; the lock is free when its lease ends"));
                journal.tell(&Event::Expiring { reason });
                code
            }
        }
    };
    farewell(client).await;
    Ok(code)
}

/// Whether a release found that the lock, or one of several, was no longer held.
fn was_lost(error: &Error) -> bool {
    match error {
        Error::Lost { .. } | Error::NotHeld { .. } => true,
        Error::Partial { failures, .. } => failures.iter().any(|(_, error)| was_lost(error)),
        _ => false,
    }
}

/// Releases the lock in the background and returns `code`. For a lock that is lost or about to be, or whose program did not start.
async fn part(held: Held, client: &Client, code: u8) -> u8 {
    drop(held);
    farewell(client).await;
    code
}

/// Closes the client, which releases what is still held.
async fn farewell(client: &Client) {
    // If the server does not answer within this time, the leases expire.
    let _ = tokio::time::timeout(FAREWELL, client.close()).await;
}

fn signalled(signal: rustix::process::Signal) -> u8 {
    u8::try_from(signal.as_raw())
        .unwrap_or(u8::MAX)
        .saturating_add(SIGNALLED)
}
