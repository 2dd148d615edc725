//! The fingerprint of a list of texts: enough to see whether another list is equal, and if not, about where the first difference is.

use std::fmt;
use std::ops::Range;

use crate::simulation::trace::{FNV_BASIS, fnv};

/// How many texts share a mark.
const STRIDE: usize = 25;

/// The characters of a mark: each has six bits.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// How many characters a mark has.
const WIDTH: usize = 2;

/// Of a list of texts: enough to see whether another list is equal, and if not, about where the first difference is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    texts: usize,
    hash: u64,
    /// A part of the hash so far behind each stride.
    marks: String,
}

impl Fingerprint {
    /// The fingerprint of these texts.
    pub fn of(texts: &[String]) -> Self {
        let (mut hash, mut marks) = (FNV_BASIS, String::new());
        for stride in texts.chunks(STRIDE) {
            for text in stride {
                hash = fnv(fnv(hash, text.as_bytes()), b"\n");
            }
            let digits =
                (0..WIDTH).map(|at| DIGITS[(hash >> (58 - 6 * at)) as usize % DIGITS.len()]);
            marks.extend(digits.map(char::from));
        }
        Self {
            texts: texts.len(),
            hash,
            marks,
        }
    }

    /// Where the first text is that differs from those of another fingerprint: one of these.
    pub fn first_difference(&self, other: &Self) -> Range<usize> {
        let marks = self.marks.as_bytes().chunks(WIDTH);
        let others = other.marks.as_bytes().chunks(WIDTH);
        let equal = marks.zip(others).take_while(|(one, other)| one == other);
        let from = equal.count() * STRIDE;
        from.min(self.texts)..(from + STRIDE).min(self.texts)
    }

    /// How many texts there were.
    pub(super) const fn len(&self) -> usize {
        self.texts
    }

    /// Reads what [`Display`](fmt::Display) writes; `None` if it is something else.
    pub fn parse(line: &str) -> Option<Self> {
        let [texts, hash, marks] = line.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(Self {
            texts: texts.parse().ok()?,
            hash: u64::from_str_radix(hash, 16).ok()?,
            marks: marks.to_owned(),
        })
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { texts, hash, marks } = self;
        write!(f, "{texts} {hash:016x} {marks}")
    }
}
