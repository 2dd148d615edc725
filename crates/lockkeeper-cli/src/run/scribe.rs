//! Writes on a thread of its own: a reader who does not read, a full disk or a stopped terminal holds up neither renewals
//! nor a kill.

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};

use crate::exit::say;

/// How many words may wait for a slow reader; more are left out. A run has about ten.
const PATIENCE: usize = 1024;

/// Something to be written.
pub(crate) enum Word {
    /// For a program.
    Line(Vec<u8>),
    /// For a person, to stderr.
    Sentence(String),
}

/// See the module.
pub(crate) struct Scribe {
    words: SyncSender<Word>,
    /// Hung up by the thread when it has written everything.
    end: Receiver<Infallible>,
}

impl Scribe {
    /// Lines go to `lines`.
    ///
    /// # Errors
    ///
    /// If the system refuses a thread.
    pub(crate) fn start(mut lines: Box<dyn Write + Send>) -> io::Result<Self> {
        let (words, heard) = sync_channel(PATIENCE);
        let (alive, end) = sync_channel(0);
        let write = move || {
            let _alive = alive;
            for word in heard {
                match word {
                    // A reader that is gone is no reason to stop.
                    Word::Line(line) => drop(lines.write_all(&line)),
                    Word::Sentence(sentence) => say(&sentence),
                }
            }
        };
        deaf(|| {
            thread::Builder::new()
                .name("scribe".to_owned())
                .spawn(write)
        })?;
        Ok(Self { words, end })
    }

    /// Does not wait for whoever reads.
    pub(crate) fn write(&self, word: Word) {
        let _ = self.words.try_send(word);
    }

    /// Waits until everything is written, but no longer than this.
    pub(crate) fn close(self, limit: Duration) {
        let Self { words, end } = self;
        drop(words);
        let _ = end.recv_timeout(limit);
    }
}

/// A thread that is started meanwhile hears no signal: all are for the one that guards the program, and who writes to a
/// terminal from the background is not stopped for it.
fn deaf<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = start();
    before.thread_set_mask()?;
    started
}
