//! The terminal: which processes may read from it, and which get typed keys as signals.

use std::fs::File;
use std::os::fd::AsFd as _;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::Pid;
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::family::own_group;

/// The terminal of this command.
#[derive(Debug)]
pub(crate) struct Terminal {
    file: File,
    ours: Pid,
}

impl Terminal {
    /// Opens the terminal; `None` if there is none, or if this command could not take it back later.
    pub(crate) fn open() -> Option<Self> {
        let ours = own_group()?;
        let file = File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()?;
        Some(Self { file, ours })
    }

    /// Lets the processes of `group` read the terminal.
    pub(crate) fn give(&self, group: Pid) {
        self.set(group);
    }

    /// Takes the terminal back from `group`, unless a third process group has it meanwhile.
    pub(crate) fn take_from(&self, group: Pid) {
        if tcgetpgrp(self.file.as_fd()) == Ok(group) {
            self.set(self.ours);
        }
    }

    /// Whether this command is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(self.file.as_fd()) == Ok(self.ours)
    }

    /// Sets which process group is in the foreground. If this process is in the background, it gets SIGTTOU for this, which
    /// would stop it unless it is blocked.
    fn set(&self, group: Pid) {
        let mut deaf = SigSet::empty();
        deaf.add(Signal::SIGTTOU);
        let before = deaf.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        // A terminal that hung up belongs to nobody.
        let _ = tcsetpgrp(self.file.as_fd(), group);
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
    }
}
