//! Writes the output on its own thread. So a reader that does not read, a full disk or a stopped terminal delays neither
//! renewals nor a kill.

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};

use crate::exit::say;

/// How many messages may wait for a slow reader. Further messages are dropped. A run writes about ten.
const PATIENCE: usize = 1024;

/// Something to write.
pub(crate) enum Word {
    /// A line for a program.
    Line(Vec<u8>),
    /// A message for a person, on stderr.
    Sentence(String),
}

/// See the module.
pub(crate) struct Scribe {
    words: SyncSender<Word>,
    /// The thread drops its end of this channel when it has written everything.
    end: Receiver<Infallible>,
}

impl Scribe {
    /// Starts the thread, which writes lines to `lines` and sentences to stderr.
    ///
    /// # Errors
    ///
    /// If the system refuses to start a thread.
    pub(crate) fn start(mut lines: Box<dyn Write + Send>) -> io::Result<Self> {
        let (words, heard) = sync_channel(PATIENCE);
        let (alive, end) = sync_channel(0);
        let write = move || {
            let _alive = alive;
            for word in heard {
                match word {
                    // The error is ignored: a reader that is gone is no reason to stop.
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

    /// Passes `word` to the thread, without waiting for the reader.
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

/// Calls `start`, and makes the thread that it starts block all signals, because they are for the thread that guards the
/// program. It also means that writing to a terminal from the background does not stop the process.
fn deaf<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = start();
    before.thread_set_mask()?;
    started
}
