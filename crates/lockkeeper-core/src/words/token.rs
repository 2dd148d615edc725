//! Fencing tokens.

use std::fmt;

/// A fencing token: the number given with a grant; larger means later.
///
/// Tokens of a name increase between any two grants that exclude one another. They are about the server's time in
/// microseconds, below 2^53 until the year 2255, and so fit a signed 64-bit integer in any database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// No script draws a token from here on, where Lua can no longer count in ones.
    pub(crate) const END: Self = Self(1 << 53);

    /// The token that reads as this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number to hand to the resource.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

/// For databases without unsigned numbers: `UPDATE … SET token = $1 WHERE token <= $1`.
impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        // Tokens that a server has given are below 2^53.
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
