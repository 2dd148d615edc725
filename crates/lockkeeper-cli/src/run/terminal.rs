//! The terminal: which process may read from it, and which gets typed keys as signals.

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
    /// `None` if there is none, or if this command could not take it back later.
    pub(crate) fn open() -> Option<Self> {
        let ours = own_group()?;
        let file = File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()?;
        Some(Self { file, ours })
    }

    /// Lets the processes of `group` read it.
    pub(crate) fn give(&self, group: Pid) {
        self.set(group);
    }

    /// Takes it back, unless a third process group has it meanwhile.
    pub(crate) fn take_from(&self, group: Pid) {
        if tcgetpgrp(self.file.as_fd()) == Ok(group) {
            self.set(self.ours);
        }
    }

    /// Whether this command is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(self.file.as_fd()) == Ok(self.ours)
    }

    /// The signal for this would stop a process in the background, unless it is blocked.
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
