//! The guard of a program. It watches the program and its lock, and ends the program before another can hold the lock.

use std::time::Duration;

use lockkeeper::Lease;
use lockkeeper_core::clock::{BootClock, Clock as _, Moment};
use rustix::process::Signal;

use super::job::{Change, Job, exit_code};
use super::journal::{Event, Journal, millis};
use super::plan::{Plan, Step};
use super::signals::Signals;
use super::tie::Tie;
use crate::exit::Failure;

/// The longest time between two looks at the clocks. It is short because timers stop while the machine is suspended.
const LOOK: Duration = Duration::from_millis(250);

/// How often to look at a group whose leader has ended. If its members are not children of this process, nothing reports their
/// end.
const COUNT: Duration = Duration::from_millis(5);

/// How long to wait for killed processes to end. A process that the system does not release may never end.
const BURIAL: Duration = Duration::from_secs(2);

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this exit code, under the lock.
    Ended(u8),
    /// By itself, with this exit code, after the lock was lost with `--on-lost ignore`.
    Unlocked(u8),
    /// It was stopped because of its lock, and none of its processes is left.
    Stopped,
    /// It was killed, but one of its processes is still there.
    Immortal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// Asked to stop; to be killed at this moment.
    Terminating(Moment),
    /// Killed at this moment.
    Killed(Moment),
}

/// See the module.
pub(crate) struct Guard<'a> {
    plan: Plan,
    keep: bool,
    tie: Tie,
    stage: Stage,
    /// Why the program was stopped, if it was.
    stopped: Option<String>,
    ignored: bool,
    journal: &'a Journal,
    signals: &'a mut Signals,
}

impl<'a> Guard<'a> {
    pub(crate) fn new(
        plan: Plan,
        keep: bool,
        leases: &[Lease],
        journal: &'a Journal,
        signals: &'a mut Signals,
    ) -> Self {
        Self {
            plan,
            keep,
            tie: Tie::new(leases),
            stage: Stage::Running,
            stopped: None,
            ignored: false,
            journal,
            signals,
        }
    }

    /// Returns when no process of the program's group is left, or when killed processes do not end.
    pub(crate) async fn watch(mut self, mut job: Job) -> Result<End, Failure> {
        self.journal.tell(&Event::Started { pid: job.id() });
        let mut loss = Box::pin(self.tie.loss());
        let mut told = false;
        loop {
            self.attend(&mut job)?;
            if job.is_over() {
                // Children of dead processes have become children of this process, so they are found now.
                self.kill_family(&mut job);
                if job.is_over() {
                    break;
                }
            }
            let nap = self.decide(&mut job);
            if matches!(self.stage, Stage::Killed(at) if BootClock.now().since(at) > BURIAL) {
                job.close();
                return Ok(End::Immortal);
            }
            tokio::select! {
                biased;
                signal = self.signals.next_or_child() => {
                    if let Some(signal) = signal {
                        self.pass_on(&job, signal);
                    }
                }
                () = &mut loss, if !told => told = true,
                () = tokio::time::sleep(nap) => {}
            }
        }
        let left = self.tie.left();
        self.journal.tell(&Event::Over {
            left_ms: millis(left),
        });
        let code = job.status().map_or(u8::MAX, exit_code);
        job.close();
        Ok(self.end(code))
    }

    fn end(&self, code: u8) -> End {
        if self.ignored {
            return End::Unlocked(code);
        }
        match (&self.stopped, self.tie.lost()) {
            (Some(reason), _) => {
                self.journal
                    .say(&format!("the program was stopped: {reason}"));
                End::Stopped
            }
            (None, Some(reason)) => {
                let reason = reason.to_string();
                self.journal.say(&format!("the lock was lost: {reason}"));
                self.journal.tell(&Event::Lost { reason: &reason });
                End::Stopped
            }
            (None, None) => End::Ended(code),
        }
    }

    /// Handles a change of the program's state.
    fn attend(&mut self, job: &mut Job) -> Result<(), Failure> {
        match job.change() {
            Change::None => {}
            Change::Stopped => {
                let woken = job.stop_along();
                // After a stop, the program may only continue if the lock is still held.
                if woken && self.stage == Stage::Running && self.tie.lost().is_none() {
                    job.go_on();
                    self.journal.tell(&Event::Continued);
                }
            }
            Change::Ended => {
                if self.stage == Stage::Running && !self.keep {
                    // The processes that it leaves behind may not continue without the lock. They get the signal before the
                    // program is reaped, because until then the number of its group cannot be reused.
                    job.terminate();
                    let patience = self.plan.tidy(self.tie.left());
                    self.stage = Stage::Terminating(BootClock.now().after(patience));
                }
                let code = exit_code(job.bury()?);
                self.journal.tell(&Event::Exited { code });
            }
        }
        Ok(())
    }

    /// Does what is due now, and returns for how long nothing further is due.
    fn decide(&mut self, job: &mut Job) -> Duration {
        let now = BootClock.now();
        let (left, lost) = (self.tie.left(), self.tie.lost());
        let orphaned = job.status().is_some();
        let look = if orphaned { COUNT } else { LOOK };
        match self.stage {
            Stage::Running => match self.plan.step(left, lost.is_some()) {
                Step::Look(nap) => nap.min(look),
                Step::Terminate(patience) => {
                    let reason = self.reason();
                    self.journal.tell(&Event::Terminating {
                        reason: &reason,
                        left_ms: millis(left),
                    });
                    job.terminate();
                    self.stopped = Some(reason);
                    self.stage = Stage::Terminating(now.after(patience));
                    patience.min(look)
                }
                Step::Kill => self.kill(job),
                Step::Leave => {
                    if let Some(reason) = lost.filter(|_| !self.ignored) {
                        self.ignored = true;
                        let reason = reason.to_string();
                        self.journal.say(&format!(
                            "the lock was lost: {reason}; the program continues without it"
                        ));
                        self.journal.tell(&Event::Ignoring { reason: &reason });
                    }
                    look
                }
            },
            Stage::Terminating(kill) if now >= kill => self.kill(job),
            Stage::Terminating(kill) => kill.since(now).min(look),
            Stage::Killed(_) => {
                self.kill_family(job);
                COUNT
            }
        }
    }

    /// Processes that have left the group are killed when the lock is lost, but not when the program ends by itself.
    fn kill_family(&self, job: &mut Job) {
        if self.stopped.is_some() && matches!(self.stage, Stage::Killed(_)) {
            job.kill_family();
        }
    }

    fn kill(&mut self, job: &mut Job) -> Duration {
        job.kill();
        let reason = match (&self.stopped, self.stage) {
            (Some(reason), _) => reason.clone(),
            (None, Stage::Running) => self.reason(),
            (None, _) => "the program has ended and left processes behind".to_owned(),
        };
        let left_ms = millis(self.tie.left());
        self.journal.tell(&Event::Killing {
            reason: &reason,
            left_ms,
        });
        // Processes that the program left behind are killed too, but that is not a loss of the lock.
        if self.stage == Stage::Running {
            self.stopped = Some(reason);
        }
        self.stage = Stage::Killed(BootClock.now());
        self.kill_family(job);
        COUNT
    }

    fn reason(&self) -> String {
        match self.tie.lost() {
            Some(reason) => reason.to_string(),
            None => "its lease was about to end".to_owned(),
        }
    }

    fn pass_on(&mut self, job: &Job, signal: Signal) {
        job.pass_on(signal);
        self.journal.tell(&Event::Signalled {
            signal: signal.as_raw(),
        });
    }
}
