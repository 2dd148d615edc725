//! The watcher: a second process that protects against a kill of the command. It has its own session, so what ends the command does
//! not reach it. If the command ends without notice, the watcher kills the group of the program.

use std::io::{Read as _, Write as _, stdin, stdout};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process_group, setsid};

use super::shim;
use crate::exit::{Failure, SYSTEM};

/// The only argument of a watcher.
pub(crate) const WATCHER: &str = "@watch";

/// The last line that a watcher receives if nothing is left to do.
const OVER: &str = "over";

/// A watcher, as seen by the process that it watches. The watcher notices the end of that process because a pipe is closed.
#[derive(Debug)]
pub(crate) struct Watcher(Child);

impl Watcher {
    /// Starts a watcher. It learns which group to kill later, and kills nothing before that.
    pub(crate) fn start() -> Result<Self, Failure> {
        let command = shim::this();
        let mut command = command.map_err(|error| Failure::system("start a process", &error))?;
        let piped = command.arg(WATCHER).env_clear().current_dir("/");
        let piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = piped.stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| Failure::system("start a process", &error))?;
        Ok(Self(child))
    }

    /// Waits until the watcher has its own session. From then on, what ends this process does not end the watcher. This takes about
    /// as long as starting a program.
    pub(crate) fn stand_by(&mut self) -> Result<(), Failure> {
        let mut word = [0];
        let heard = match &mut self.0.stdout {
            Some(words) => words.read_exact(&mut word),
            None => Ok(()),
        };
        heard.map_err(|_| gone())
    }

    /// Makes the watcher kill `group` if this process ends from now on.
    pub(crate) fn watch(&mut self, group: Pid) -> Result<(), Failure> {
        let told = self.tell(&group.as_raw_pid().to_string());
        told.map_err(|_| gone())
    }

    /// Ends the watcher, because nothing is left to kill.
    pub(crate) fn dismiss(mut self) {
        // The error is ignored: a watcher that is gone kills nothing.
        let _ = self.tell(OVER);
        drop(self.0.stdin.take());
    }

    fn tell(&mut self, word: &str) -> std::io::Result<()> {
        let words = self.0.stdin.as_mut();
        words.map_or(Ok(()), |words| {
            words.write_all(format!("{word}\n").as_bytes())
        })
    }
}

fn gone() -> Failure {
    let message = "could not start the program: its watcher, which kills it if this command is killed, has ended";
    Failure::new(SYSTEM, message)
}

/// Runs a watcher.
pub(crate) fn watch_over() -> u8 {
    let mut words = String::new();
    let apart = setsid().is_ok() && stdout().write_all(b".").is_ok() && stdout().flush().is_ok();
    if !apart || stdin().read_to_string(&mut words).is_err() {
        return SYSTEM;
    }
    let mut words = words.lines();
    let group = words.next().and_then(|word| word.parse().ok());
    if let Some(group) = group.and_then(Pid::from_raw)
        && words.next() != Some(OVER)
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
    0
}
