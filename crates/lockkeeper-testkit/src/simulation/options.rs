//! How a history runs, besides its seed.

use super::beyond::Beyond;
use super::slip::Slip;
use crate::patch::Patch;

/// How to run a history.
#[derive(Debug, Clone, Default)]
#[expect(clippy::exhaustive_structs, reason = "tests name what they want")]
pub struct Options {
    /// Keeps the events so that they can be read afterwards.
    pub keep_lines: bool,
    /// Keeps what the nets compare.
    pub record: bool,
    /// Makes clients send with this mistake.
    pub slip: Option<Slip>,
    /// Makes the servers run one script with a mistake in it.
    pub patch: Option<Patch>,
    /// Adds one thing that the guarantees exclude; for workloads on one server.
    pub beyond: Option<Beyond>,
}
