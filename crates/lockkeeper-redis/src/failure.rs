//! What fred's errors say about a request: not sent, unknown, refused.
//!
//! Error replies to scripts never come this way. Scripts are run so that fred hands over the raw frame, and an error
//! *reply* is told from an error of *fred* by its type, not by its text. That matters for `CLUSTERDOWN`: fred gives the
//! text of that one reply to every request that was under way, as their own error.

use fred::error::{Error as FredError, ErrorKind};
use lockkeeper_core::store::StoreError;

/// What is known about a request that fred answered with an error of its own.
pub(crate) fn of_request(error: FredError) -> StoreError {
    let message = plain(&error);
    let known_not_sent = match error.kind() {
        ErrorKind::Backpressure => true,
        // Not connected, or still in the queue when the client shut down.
        ErrorKind::Canceled => matches!(
            error.details(),
            "Connection closed unexpectedly." | "Canceled."
        ),
        // A client of ours has one connection for life, so there was no earlier attempt.
        ErrorKind::Unknown => matches!(
            error.details(),
            "Client is not initialized." | "Failed to send command to router."
        ),
        ErrorKind::Cluster => error.details().starts_with("Missing "),
        _ => false,
    };
    if known_not_sent {
        StoreError::not_sent(message).with_source(error)
    } else {
        StoreError::unknown(message).with_source(error)
    }
}

/// Why a connection could not be made. No request of the caller's was in it, so it is refused or not sent.
pub(crate) fn of_connecting(error: FredError) -> StoreError {
    if is_error_reply(&error) {
        StoreError::refused(error.details()).with_source(error)
    } else {
        StoreError::not_sent(plain(&error)).with_source(error)
    }
}

/// What to do about a refused connection, for the end of a message.
pub(crate) fn advice(error: &StoreError) -> &'static str {
    match error.code() {
        Some("WRONGPASS") => ": the user name or the password in the URL is wrong",
        Some("NOAUTH") => ": the server asks for a password, give one in the URL",
        Some("NOPERM") => ": the user may not do what Lockkeeper needs",
        _ => "",
    }
}

/// Whether fred's error is an error reply in disguise. Replies open with a code word in capitals, fred's own texts are
/// sentences. For connecting and for `PING`, where the price of a mistake is the wording or a new connection.
pub(crate) fn is_error_reply(error: &FredError) -> bool {
    let code = error.details().split_whitespace().next();
    code.is_some_and(|code| {
        code.len() > 2 && code.chars().all(|letter| letter.is_ascii_uppercase())
    })
}

/// fred's text, or the operating system's inside it: `Os { code: 111, kind: ConnectionRefused, message: "…" }`.
fn plain(error: &FredError) -> String {
    let details = error.details();
    match error.kind() {
        ErrorKind::Timeout => "no answer in time".to_owned(),
        ErrorKind::IO => {
            let inner = details.split_once("message: \"").map(|(_, rest)| rest);
            let inner = inner.and_then(|rest| rest.split_once('"'));
            inner.map_or(details, |(message, _)| message).to_owned()
        }
        _ => details.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::store::Outcome;

    use super::*;

    fn outcome(kind: ErrorKind, details: &'static str) -> Outcome {
        of_request(FredError::new(kind, details)).outcome()
    }

    #[test]
    fn a_request_that_never_left_is_not_sent() {
        let cases = [
            (
                ErrorKind::Backpressure,
                "Max command queue length exceeded.",
            ),
            (ErrorKind::Canceled, "Connection closed unexpectedly."),
            (ErrorKind::Canceled, "Canceled."),
            (ErrorKind::Unknown, "Client is not initialized."),
            (ErrorKind::Unknown, "Failed to send command to router."),
            (ErrorKind::Cluster, "Missing cluster routing state."),
        ];
        for (kind, details) in cases {
            assert_eq!(outcome(kind, details), Outcome::NotSent, "{details}");
        }
    }

    #[test]
    fn whatever_may_have_left_is_unknown() {
        let cases = [
            (ErrorKind::IO, "Connection closed."),
            (ErrorKind::IO, "Unresponsive connection."),
            (ErrorKind::Timeout, "Request timed out."),
            (ErrorKind::Unknown, "channel closed"),
            (ErrorKind::Unknown, "Too many failed write attempts."),
            (ErrorKind::Protocol, "Cannot parse."),
            (ErrorKind::Canceled, "Empty error."),
            // The reply to a neighbour, which fred gives to everybody under way.
            (ErrorKind::Cluster, "CLUSTERDOWN The cluster is down"),
        ];
        for (kind, details) in cases {
            assert_eq!(outcome(kind, details), Outcome::Unknown, "{details}");
        }
    }

    #[test]
    fn a_failure_to_connect_is_refused_or_not_sent_in_plain_words() {
        let refused = of_connecting(FredError::new(ErrorKind::Auth, "WRONGPASS invalid pair"));
        assert_eq!(refused.code(), Some("WRONGPASS"));
        let os = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        let unreachable = of_connecting(FredError::new(ErrorKind::IO, os));
        assert_eq!(unreachable.outcome(), Outcome::NotSent);
        assert_eq!(unreachable.to_string(), "Connection refused");
    }
}
