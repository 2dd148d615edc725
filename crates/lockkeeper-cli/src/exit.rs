//! Exit codes, and failures that carry one. Codes from 64 on are those of `sysexits.h`, if it has a suitable one.

use lockkeeper::Error;

/// The command line, the URL or the settings cannot work; nothing was started.
pub(crate) const USAGE: u8 = 64;
/// The server cannot be reached, or refuses.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The operating system refused something: a process, a signal, a file.
pub(crate) const SYSTEM: u8 = 71;
/// Another holds the lock, and the wait is over.
pub(crate) const CONFLICT: u8 = 75;
/// The lock was lost while the program ran.
pub(crate) const LOST: u8 = 76;
/// The program exists but cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such program.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of a signal.
pub(crate) const SIGNALLED: u8 = 128;
/// The reader of the output has closed it, as with SIGPIPE.
pub(crate) const CLOSED: u8 = SIGNALLED + 13;

/// Why the command ends without having done what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    message: String,
    /// Whether it may pass: the server was unreachable or not ready.
    pub(crate) transient: bool,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            message,
            transient: false,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// The operating system refused to do something.
    pub(crate) fn system(doing: &str, error: &dyn std::error::Error) -> Self {
        Self::new(SYSTEM, format!("could not {doing}: {error}"))
    }

    /// What went wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Adds a hint to the message.
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.message = format!("{}; {hint}", self.message);
        self
    }

    /// Prints the reason, unless the output is closed. In an error about the command line, anything that may be a password is
    /// removed.
    pub(crate) fn print(&self) {
        match self.code {
            CLOSED => {}
            USAGE => say(&crate::server::hushed(self.message.clone())),
            _ => say(&self.message),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Config { .. } | Error::WrongKind { .. } | Error::OverLimit { .. } => USAGE,
            Error::Timeout { .. } | Error::QueueFull { .. } | Error::Foreign { .. } => CONFLICT,
            Error::Lost { .. } | Error::NotHeld { .. } => LOST,
            _ => UNAVAILABLE,
        };
        // The library's message names a method. This one names the option and the subcommand instead.
        let message = match &error {
            Error::OverLimit { name, limit, .. } => format!(
                "{name:?} now has {limit} {}, fewer than requested: ask for fewer --permits, or raise the limit with `lockkeeper limit`",
                permits(*limit)
            ),
            error => error.to_string(),
        };
        Self {
            transient: error.is_transient(),
            ..Self::new(code, message)
        }
    }
}

/// "permit" or "permits".
pub(crate) const fn permits(number: u32) -> &'static str {
    match number {
        1 => "permit",
        _ => "permits",
    }
}

/// Prints a message to stderr. A failure is ignored, because it cannot be reported anywhere. Text from others, such as a
/// label or a server's answer, is escaped so that it cannot move the cursor.
pub(crate) fn say(message: &str) {
    use std::io::Write as _;
    let bold = anstyle::Style::new().bold();
    let message = crate::out::shown(message);
    let _ = writeln!(anstream::stderr(), "{bold}lockkeeper{bold:#}: {message}");
}
