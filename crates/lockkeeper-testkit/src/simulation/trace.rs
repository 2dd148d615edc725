//! The events of a history: a running hash of every line, and the lines themselves if they are wanted.

use std::fmt::{self, Write as _};
use std::time::Duration;

/// The hash of no bytes by FNV-1a.
pub(crate) const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues a hash by FNV-1a, which is the same in every process.
pub(crate) fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(hash, step)
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule, in two or three words.
    pub rule: &'static str,
    /// Which client or claim broke it, and how.
    pub what: String,
}

/// The trace of one history.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    line: String,
    /// `None`: only the hash is kept.
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(keep_lines: bool) -> Self {
        Self {
            hash: FNV_BASIS,
            events: 0,
            line: String::new(),
            lines: keep_lines.then(Vec::new),
        }
    }

    /// Adds one event.
    pub(crate) fn tell(&mut self, at: Duration, event: fmt::Arguments<'_>) {
        self.line.clear();
        // Writing into a string cannot fail.
        let _ = write!(self.line, "{:>9.3} {event}", at.as_secs_f64());
        self.hash = fnv(self.hash, self.line.as_bytes());
        self.events += 1;
        if let Some(lines) = &mut self.lines {
            lines.push(self.line.clone());
        }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}

/// A readable short form of a claim or owner: the beginnings of its uuid and of its random bits.
pub(crate) fn short(claim: &str) -> String {
    let (owner, random) = claim.split_once('/').unwrap_or((claim, ""));
    let (client, number) = owner.split_once(':').unwrap_or((owner, ""));
    let cut = |text: &str| text.chars().take(4).collect::<String>();
    if random.is_empty() {
        format!("{}:{number}", cut(client))
    } else {
        format!("{}:{number}/{}", cut(client), cut(random))
    }
}
