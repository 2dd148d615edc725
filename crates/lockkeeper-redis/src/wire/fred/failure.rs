//! What fred's errors say about a request: not sent, unknown, refused.
//!
//! Error replies to scripts never reach this module. Scripts are run so that fred returns the raw frame, and the type, not the
//! text, distinguishes an error *reply* from an error of *fred*. That matters for `CLUSTERDOWN`: fred gives the text of that one
//! reply to every request under way, as their own error.

use fred::error::{Error as FredError, ErrorKind};
use lockkeeper_core::store::StoreError;

use crate::failure::{self, GIBBERISH, of_tls, spaced};

/// What is known about a request that fred failed with an error of its own.
pub(super) fn of_request(error: FredError) -> StoreError {
    let message = plain(&error);
    let known_not_sent = match error.kind() {
        ErrorKind::Backpressure => true,
        // Not connected, or still in the queue when the client shut down.
        ErrorKind::Canceled => matches!(
            error.details(),
            "Connection closed unexpectedly." | "Canceled."
        ),
        // Our client has one connection for life, so there was no earlier attempt.
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

/// Why a connection could not be made. It carried no request of a caller, so the error is "refused" or "not sent".
pub(super) fn of_connecting(error: FredError) -> StoreError {
    if is_error_reply(&error) {
        let refused = StoreError::refused(error.details()).with_source(error);
        failure::of_greeting(refused)
    } else {
        StoreError::not_sent(plain(&error)).with_source(error)
    }
}

/// Whether fred's error is really an error reply. Replies begin with a code in capitals; fred's own texts are sentences. Used for
/// connecting and for `PING`, where a mistake only costs the wording or a new connection.
pub(super) fn is_error_reply(error: &FredError) -> bool {
    let code = error.details().split_whitespace().next();
    code.is_some_and(|code| {
        code.len() > 2 && code.chars().all(|letter| letter.is_ascii_uppercase())
    })
}

fn plain(error: &FredError) -> String {
    let details = error.details();
    match error.kind() {
        ErrorKind::Timeout => "no answer in time".to_owned(),
        ErrorKind::Protocol => GIBBERISH.to_owned(),
        #[cfg(feature = "tls")]
        ErrorKind::Tls => of_tls(details),
        _ => words(details),
    }
}

/// Extracts the message from fred's errors. fred passes on errors of the operating system and the TLS library in Rust's `Debug`
/// form, as in `Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }` and
/// `Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }`. Its own texts are sentences.
fn words(details: &str) -> String {
    let quoted = |mark| details.split_once(mark)?.1.split('"').next();
    if let Some(text) = quoted("message: \"").or_else(|| quoted("error: \"")) {
        return text.to_owned();
    }
    if let Some(kind) = details.strip_prefix("Kind(") {
        return spaced(kind);
    }
    match details.split_once(", error: ") {
        Some((_, error)) => of_tls(error),
        None => details.to_owned(),
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
            // The reply to a neighbour, which fred gives to every request under way.
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
        let full = "ERR max number of clients reached";
        let full = of_connecting(FredError::new(ErrorKind::Unknown, full));
        assert_eq!(full.outcome(), Outcome::NotSent);
        let os = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        let unreachable = of_connecting(FredError::new(ErrorKind::IO, os));
        assert_eq!(unreachable.outcome(), Outcome::NotSent);
        assert_eq!(unreachable.to_string(), "Connection refused");
    }

    #[test]
    fn no_debug_form_of_rust_reaches_a_user() {
        let certificate =
            |why: &str| format!("Custom {{ kind: InvalidData, error: InvalidCertificate({why}) }}");
        let name =
            r#"NotValidForNameContext { expected: DnsName("a"), presented: ["DnsName(\"b\")"] }"#;
        for (details, expected) in [
            (
                "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }",
                "Connection refused",
            ),
            (
                "Custom { kind: Uncategorized, error: \"failed to lookup address information\" }",
                "failed to lookup address information",
            ),
            ("Kind(UnexpectedEof)", "unexpected eof"),
            (
                "Error { kind: InvalidInput, message: \"invalid socket address\" }",
                "invalid socket address",
            ),
            (
                &certificate("UnknownIssuer"),
                "the server's certificate is not signed by an authority that is trusted here",
            ),
            (
                &certificate(name),
                "the server's certificate does not name this host",
            ),
            (
                &certificate("Other(OtherError(CaUsedAsEndEntity))"),
                "the server's certificate is not accepted: other",
            ),
            (
                "Custom { kind: InvalidData, error: AlertReceived(CertificateRequired) }",
                "the server ended the TLS handshake: certificate required",
            ),
            (
                "Custom { kind: InvalidData, error: InvalidMessage(InvalidContentType) }",
                "the server does not answer in TLS",
            ),
            (
                "Custom { kind: InvalidData, error: PeerIncompatible(SignatureMissing) }",
                "TLS failed: peer incompatible",
            ),
            ("Connection closed.", "Connection closed."),
        ] {
            let error = FredError::new(ErrorKind::IO, details.to_owned());
            assert_eq!(of_request(error).message(), expected);
        }
    }
}
