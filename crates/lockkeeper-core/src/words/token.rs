//! Fencing tokens.

use std::fmt;
use std::time::{Duration, SystemTime};

/// A token is not taken as a time if that time would be longer ago than this.
const PLAUSIBLE: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How far ahead of this machine's clock a server's clock may be before a message with its token must be confirmed.
const AHEAD: Duration = Duration::from_secs(86_400);

/// A fencing token: a number given with a grant; a larger number means a later grant.
///
/// Tokens of a name increase between any two grants that exclude each other. They are close to the server's time in
/// microseconds, below 2^53 until the year 2255, and so fit a signed 64-bit integer in any database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// No token: what scripts answer with when the counter is at its end. From the next number on, Lua's numbers cannot represent
    /// every integer.
    pub(crate) const END: Self = Self((1 << 53) - 1);

    /// The token with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number to pass to the resource.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether the token would be of a time that no server's clock shows: more than a day from now.
    pub(crate) fn is_of_the_future(self) -> bool {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Duration::from_micros(self.0) > now.saturating_add(AHEAD)
    }

    /// Returns when the token was drawn, by the server's clock. The result is a little too late if an equal or larger
    /// token had been drawn before. `None` if it would be more than ten years ago, or in the future: a token chosen by
    /// hand is not a time.
    pub fn time(self) -> Option<SystemTime> {
        let drawn = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(self.0))?;
        let ago = drawn.elapsed().ok()?;
        (ago < PLAUSIBLE).then_some(drawn)
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
        // Tokens from a server are below 2^53.
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_time_of_its_grant_if_it_can_be() {
        let hour = Duration::from_secs(3600);
        let ago = SystemTime::UNIX_EPOCH.elapsed().unwrap() - hour;
        let token = FencingToken::new(ago.as_micros().try_into().unwrap());
        let passed = token.time().unwrap().elapsed().unwrap();
        assert!(
            passed.abs_diff(hour) < Duration::from_secs(60),
            "{passed:?}"
        );
        assert_eq!(FencingToken::new(42).time(), None);
        assert_eq!(FencingToken::new(u64::MAX / 2).time(), None);
    }
}
