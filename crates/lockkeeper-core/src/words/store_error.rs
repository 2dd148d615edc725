//! What is known about a request that failed.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// The number of one request, unique among the requests of one client.
pub type Request = u64;

/// What is known about a failed request: whether the server may have executed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It did not reach the server, and never will.
    NotSent,
    /// It may have been executed, may be executed later, or never.
    Unknown,
    /// The server answered with an error and did not complete it.
    Refused,
}

/// The reason why a store could not run a request.
#[derive(Debug, Clone)]
pub struct StoreError {
    outcome: Outcome,
    message: String,
    /// The client refused the answer, not the server the request.
    by_client: bool,
    /// What to do about it.
    remedy: Option<Arc<str>>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl StoreError {
    const fn new(outcome: Outcome, message: String) -> Self {
        Self {
            outcome,
            message,
            by_client: false,
            remedy: None,
            source: None,
        }
    }

    /// The request did not reach the server and never will.
    pub fn not_sent(message: impl Into<String>) -> Self {
        Self::new(Outcome::NotSent, message.into())
    }

    /// The request may or may not have been executed.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(Outcome::Unknown, message.into())
    }

    /// The server's complete error reply: its first word is the error code.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Outcome::Refused, message.into())
    }

    /// The server granted what this client refuses: the claim must be released, and asking again at once may give the same.
    pub(crate) fn distrusted(message: impl Into<String>) -> Self {
        let mut error = Self::new(Outcome::Refused, message.into());
        error.by_client = true;
        error
    }

    /// Whether it is the [client](Self::distrusted) that refuses.
    pub(crate) const fn is_distrust(&self) -> bool {
        self.by_client
    }

    /// Keeps the client library's own error as the source of this one.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns what is known about the request.
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The client library's own error.
    pub(crate) fn client_error(&self) -> Option<Arc<dyn StdError + Send + Sync>> {
        self.source.clone()
    }

    /// Returns what happened, without the outcome; for an error reply, the text that the server sent.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the error code of the server's error reply (`NOPERM`, `READONLY`, …); `None` if the server did not
    /// answer.
    pub fn code(&self) -> Option<&str> {
        match self.outcome {
            Outcome::Refused if !self.by_client => self.message.split_whitespace().next(),
            _ => None,
        }
    }

    /// Adds advice about what to do.
    pub(crate) fn with_remedy(mut self, remedy: Option<Arc<str>>) -> Self {
        self.remedy = remedy;
        self
    }

    /// Returns whether the server does not know the script, and so has executed nothing.
    pub fn is_noscript(&self) -> bool {
        self.code() == Some("NOSCRIPT")
    }

    /// Whether the server refused this particular request, so that parts of it may succeed alone. True for errors
    /// that do not depend on the server's state, and for `TRYAGAIN`, which concerns requests with several keys.
    pub(crate) fn blames_request(&self) -> bool {
        self.outcome == Outcome::Refused
            && (!self.is_transient() || self.code() == Some("TRYAGAIN"))
    }

    /// Returns whether the same request may succeed later: there was no answer, or the server is not ready now.
    pub fn is_transient(&self) -> bool {
        match self.code() {
            None => !self.by_client,
            Some(code) => matches!(
                code,
                "LOADING"
                    | "BUSY"
                    | "READONLY"
                    | "MASTERDOWN"
                    | "CLUSTERDOWN"
                    | "TRYAGAIN"
                    | "NOREPLICAS"
                    | "MISCONF"
                    | "OOM"
                    | "UNBLOCKED"
            ),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outcome {
            Outcome::Refused if self.by_client => write!(f, "{}", Printable(&self.message)),
            Outcome::NotSent => write!(f, "{}", Printable(&self.message)),
            Outcome::Unknown => write!(f, "no answer: {}", Printable(&self.message)),
            Outcome::Refused => {
                write!(f, "the server refused: {}", Printable(&self.message))?;
                self.remedy.iter().try_for_each(|it| write!(f, "; {it}"))
            }
        }
    }
}

/// A text that may come from a server, with its control characters escaped: they could rewrite a terminal or forge
/// log lines.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(char::is_control) {
            let plain = part.trim_end_matches(char::is_control);
            f.write_str(plain)?;
            write!(f, "{}", part[plain.len()..].escape_default())?;
        }
        Ok(())
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_cannot_act_on_a_terminal_or_forge_a_line() {
        let text = "ERR \u{1b}[2J\u{1b}]0;owned\u{7}\r\nWARN lost \u{9b}31m grün\u{0}";
        for error in [
            StoreError::refused(text),
            StoreError::unknown(text),
            StoreError::not_sent(text),
        ] {
            let shown = crate::Error::backend("acquire lock \"a\"", error).to_string();
            assert!(!shown.contains(char::is_control), "{shown:?}");
            let escaped = r"ERR \u{1b}[2J\u{1b}]0;owned\u{7}\r\nWARN lost \u{9b}31m grün\u{0}";
            assert!(shown.ends_with(escaped), "{shown}");
        }
        let plain = StoreError::refused("ERR plain").to_string();
        assert_eq!(plain, "the server refused: ERR plain");
    }
}
