//! The guard of a program: watches it and its lock, and ends it before the lock can be somebody else's.

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

/// The longest time between two looks at the clocks. Timers stand still while the machine sleeps.
const LOOK: Duration = Duration::from_millis(250);

/// How often a group is looked at that has lost its leader: where its members are not children of this process, nothing
/// tells of their end.
const COUNT: Duration = Duration::from_millis(5);

/// How long killed processes may take to go: those that the system does not let go of may never.
const BURIAL: Duration = Duration::from_secs(2);

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By itself, with this exit code, under the lock.
    Ended(u8),
    /// By itself, with this exit code, when the lock was lost and nobody minded.
    Unlocked(u8),
    /// It was stopped because of its lock, and nobody is left of it.
    Stopped,
    /// It was killed, and somebody is left.
    Immortal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// To be killed at this moment.
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

    /// Returns when nobody is left of the program's group.
    pub(crate) async fn watch(mut self, mut job: Job) -> Result<End, Failure> {
        self.journal.tell(&Event::Started { pid: job.id() });
        let mut loss = Box::pin(self.tie.loss());
        let mut told = false;
        loop {
            self.attend(&mut job)?;
            if job.is_over() {
                // Whoever was a child of the dead is one of this process now, and so is found.
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

    /// Sees to what has become of the program.
    fn attend(&mut self, job: &mut Job) -> Result<(), Failure> {
        match job.change() {
            Change::None => {}
            Change::Stopped => {
                let woken = job.stop_along();
                // Whoever wakes up without a lock is not to go on.
                if woken && self.stage == Stage::Running && self.tie.lost().is_none() {
                    job.go_on();
                    self.journal.tell(&Event::Continued);
                }
            }
            Change::Ended => {
                if self.stage == Stage::Running && !self.keep {
                    // Nobody may go on without the lock. They are told before the program is buried: so long its group
                    // is its own.
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

    /// Does what the time asks for; how long nothing has to be done then.
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
                            "the lock was lost: {reason}; the program runs on without it"
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

    /// What has left the group is stopped with its lock, and not for the end of its program.
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
            (None, _) => "the program has ended without it".to_owned(),
        };
        let left_ms = millis(self.tie.left());
        self.journal.tell(&Event::Killing {
            reason: &reason,
            left_ms,
        });
        // What a program left behind is killed too; that is no loss.
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
