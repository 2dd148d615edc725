//! The program and its process group, from its start to the end of its last process.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_current_process_group, kill_process,
    kill_process_group, test_kill_process_group, waitid,
};

use super::family::{Census, other_groups};
use super::shim;
use super::terminal::Terminal;
use super::watcher::Watcher;
use crate::exit::{Failure, SIGNALLED};

/// A program under a lock.
#[derive(Debug)]
pub(crate) struct Job {
    child: Child,
    group: Pid,
    terminal: Option<Terminal>,
    status: Option<ExitStatus>,
    /// Further groups of its descendants that were killed.
    killed: Vec<Pid>,
    census: Census,
    watcher: Watcher,
}

/// What has happened to the program since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    /// It was stopped, for example by the keyboard.
    Stopped,
    /// It has ended. It is not reaped yet, so its id, which is also that of its group, cannot be reused.
    Ended,
}

impl Job {
    /// Starts `program` with `variables` in its environment. Those that are `None` are removed from it. `watcher` kills the
    /// program's group if this process cannot.
    pub(crate) fn start(
        program: &[std::ffi::OsString],
        variables: &[(&str, Option<String>)],
        mut watcher: Watcher,
    ) -> Result<Self, Failure> {
        watcher.stand_by()?;
        let failed = |error: std::io::Error| Failure::system("start a process", &error);
        // Processes that the program leaves behind become children of this process, which then learns when they end.
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(getpid()))
            .map_err(|error| failed(error.into()))?;
        let terminal = Terminal::open();
        let front = terminal.as_ref().filter(|terminal| terminal.is_ours());
        let mut command = shim::command(program).map_err(failed)?;
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = shim::start(&mut command).map_err(failed)?;
        let Some(group) = Pid::from_raw(child.id().cast_signed()) else {
            return Err(Failure::usage("a process without a number"));
        };
        // The program may start only after the watcher knows the group. If this process were killed before that, nothing would end
        // the program.
        watcher.watch(group).inspect_err(|_| {
            let _ = kill_process_group(group, Signal::KILL);
        })?;
        if let Some(terminal) = front {
            terminal.give(group);
        }
        shim::release(group);
        Ok(Self {
            child,
            group,
            terminal,
            status: None,
            killed: Vec::new(),
            census: Census::default(),
            watcher,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status of the program; `None` until it is reaped.
    pub(crate) const fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    pub(crate) fn change(&self) -> Change {
        if self.status.is_some() {
            return Change::None;
        }
        let look = |options| waitid(WaitId::Pid(self.group), options | WaitIdOptions::NOHANG);
        if let Ok(Some(_)) = look(WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            return Change::Ended;
        }
        match look(WaitIdOptions::STOPPED) {
            Ok(Some(_)) => Change::Stopped,
            _ => Change::None,
        }
    }

    /// Reaps the program and takes the terminal back.
    pub(crate) fn bury(&mut self) -> Result<ExitStatus, Failure> {
        let status = self.child.wait();
        let status = status.map_err(|error| Failure::system("wait for the program", &error))?;
        self.status = Some(status);
        if let Some(terminal) = &self.terminal {
            terminal.take_from(self.group);
        }
        Ok(status)
    }

    /// Whether no process of the group is left, not even one that this process may not signal. Reaps the processes that the program
    /// left behind. Zombies that another process does not reap do not count.
    pub(crate) fn is_over(&mut self) -> bool {
        self.bury_adopted();
        let Self { census, killed, .. } = self;
        let mut is_gone = |group: &Pid| {
            test_kill_process_group(*group) == Err(Errno::SRCH) || census.finds_only_dead(*group)
        };
        self.status.is_some() && is_gone(&self.group) && killed.iter().all(is_gone)
    }

    /// Dismisses the watcher. Call it when no process is left that a signal could end.
    pub(crate) fn close(self) {
        self.watcher.dismiss();
    }

    /// Reaps dead children that this process has adopted, whatever their group. Thousands of them may collect before the program
    /// ends.
    fn bury_adopted(&self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        if self.status.is_some() {
            while let Ok(Some(_)) = waitid(WaitId::All, options) {}
            return;
        }
        // The program itself is reaped by `bury`, and only there.
        #[cfg(target_os = "linux")]
        while let Some(dead) = dead_child().filter(|dead| *dead != self.group) {
            let _ = waitid(WaitId::Pid(dead), options);
        }
    }

    /// Passes a signal on. A signal that asks to stop goes to the whole group, as one from the keyboard does. A signal whose
    /// meaning the program defines goes to the program only.
    pub(crate) fn pass_on(&self, signal: Signal) {
        if signal == Signal::USR1 || signal == Signal::USR2 {
            if self.status.is_none() {
                let _ = kill_process(self.group, signal);
            }
        } else {
            self.signal(signal);
        }
    }

    /// Asks the whole group to stop, including processes that are suspended.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Kills the other groups of the program's descendants, as far as they are found now. When a process dies, its children get
    /// another parent, so call this again until none is left.
    pub(crate) fn kill_family(&mut self) {
        for group in other_groups(self.group) {
            let _ = kill_process_group(group, Signal::KILL);
            if !self.killed.contains(&group) {
                self.killed.push(group);
            }
        }
    }

    /// Sends a signal to the group. An error is ignored, because a group that is gone needs no signal.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    /// Stops this command too, after the program was stopped, so that the terminal goes back to the shell. Returns true after this
    /// command was continued; the lease may have ended meanwhile. Without a terminal, it does nothing and returns false.
    pub(crate) fn stop_along(&self) -> bool {
        let Some(terminal) = &self.terminal else {
            return false;
        };
        terminal.take_from(self.group);
        // The keyboard would send the same signal. If nothing could continue this command, the system does not stop it.
        kill_current_process_group(Signal::TSTP).is_ok()
    }

    /// Continues a stopped program, in the foreground if this command is there.
    pub(crate) fn go_on(&self) {
        if let Some(terminal) = self.terminal.as_ref().filter(|it| it.is_ours()) {
            terminal.give(self.group);
        }
        self.signal(Signal::CONT);
    }
}

/// A child that has ended and is not reaped yet.
#[cfg(target_os = "linux")]
fn dead_child() -> Option<Pid> {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    let options = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let dead = waitid(Id::All, options).ok()?.pid()?;
    Pid::from_raw(dead.as_raw())
}

/// The exit code that a shell would show.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let number = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match (status.code(), status.signal()) {
        (Some(code), _) => number(code),
        (None, Some(signal)) => number(signal).saturating_add(SIGNALLED),
        (None, None) => u8::MAX,
    }
}
