//! The messages, for people, about a connection that could not be made or has ended.

use std::io;
use std::time::Duration;

use lockkeeper_core::store::StoreError;

use crate::credentials::Login;

/// For a server that has ended a connection without an answer.
pub(crate) const CLOSED: &str = "the connection was closed";

/// The text of operating systems.
const RESET: &str = "Connection reset by peer";

/// For a server whose answer is not in Redis's protocol.
pub(crate) const GIBBERISH: &str = "the answer is not in the protocol of Redis";

/// For a server that does not speak TLS although the URL does.
const NOT_TLS: &str = "the server does not answer in TLS";

/// For a server that stays silent while a connection is made.
pub(crate) fn late(timeout: Duration) -> StoreError {
    StoreError::not_sent(format!("no answer within {timeout:?}"))
}

/// Why a connection could not be made, if the server has said so.
pub(crate) fn of_greeting(refused: StoreError) -> StoreError {
    match refused.message().starts_with("ERR max number of clients") {
        // The server refuses all new connections just now, and not this request: that may pass.
        true => {
            let message = format!("{}; raise maxclients or close some", refused.message());
            StoreError::not_sent(message).with_source(refused)
        }
        false => refused,
    }
}

/// What to do about a refused connection, for the end of a message.
pub(crate) fn advice(error: &StoreError, login: &Login) -> &'static str {
    match error.code() {
        Some("WRONGPASS") if login.changes() => {
            ": the credentials that were given are wrong, or not yet known to the server"
        }
        Some("WRONGPASS") => ": the user name or the password in the URL is wrong",
        Some("NOAUTH") => ": the server asks for a password, give one in the URL",
        Some("NOPERM") => ": the user may not do what Lockkeeper needs",
        _ => "",
    }
}

/// What to do about a first connection that failed, for the end of a message: the server may speak TLS and the URL not, or the
/// other way round. `tls` says whether the URL does.
pub(crate) fn hint(error: &StoreError, tls: bool) -> &'static str {
    let message = error.message();
    let hangs_up = [CLOSED, RESET, GIBBERISH].contains(&message);
    // A server takes the beginning of TLS for a command and waits for its end, which rarely comes.
    let waits = message.starts_with("no answer");
    match tls {
        true if hangs_up || waits || message == NOT_TLS => {
            ": if the port does not speak TLS, the URL begins with redis, not rediss"
        }
        false if hangs_up => ": if the port speaks TLS, the URL begins with rediss, not redis",
        _ => "",
    }
}

/// The message of the operating system or the TLS library.
pub(crate) fn words_of_io(error: &io::Error) -> String {
    #[cfg(feature = "tls")]
    if let Some(error) = error
        .get_ref()
        .and_then(|it| it.downcast_ref::<rustls::Error>())
    {
        return of_tls(&format!("{error:?}"));
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => {
            let text = error.to_string();
            let (words, _) = text.split_once(" (os error").unwrap_or((&text, ""));
            words.to_owned()
        }
    }
}

/// An error of the TLS library, built from the names in its `Debug` output.
#[cfg(any(feature = "fred", feature = "tls"))]
pub(crate) fn of_tls(text: &str) -> String {
    let (error, inside) = text.split_once('(').unwrap_or((text, ""));
    let detail = spaced(inside);
    match (error, &*detail) {
        ("InvalidCertificate", "unknown issuer") => {
            "the server's certificate is not signed by an authority that is trusted here".to_owned()
        }
        ("InvalidCertificate", "not valid for name" | "not valid for name context") => {
            "the server's certificate does not name this host".to_owned()
        }
        ("InvalidCertificate", "expired" | "expired context") => {
            "the server's certificate has expired".to_owned()
        }
        ("InvalidCertificate", _) => {
            format!("the server's certificate is not accepted: {detail}")
        }
        ("AlertReceived", _) => format!("the server ended the TLS handshake: {detail}"),
        ("InvalidMessage", _) => NOT_TLS.to_owned(),
        _ => format!("TLS failed: {}", spaced(error)),
    }
}

/// The first name of a text in words: `UnknownIssuer` is "unknown issuer".
#[cfg(any(feature = "fred", feature = "tls"))]
pub(crate) fn spaced(text: &str) -> String {
    let mut names = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut words = String::new();
    let mut small = false;
    for letter in names.next().unwrap_or_default().chars() {
        if small && letter.is_ascii_uppercase() {
            words.push(' ');
        }
        small = !letter.is_ascii_uppercase();
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operating_system_is_quoted_without_its_number() {
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(words_of_io(&refused), "Connection refused");
        let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(words_of_io(&ended), CLOSED);
    }

    #[test]
    fn who_finds_no_place_may_come_again() {
        let full = StoreError::refused("ERR max number of clients reached");
        assert!(of_greeting(full).message().contains("raise maxclients"));
        let refused = of_greeting(StoreError::refused("WRONGPASS no"));
        assert_eq!(refused.code(), Some("WRONGPASS"));
    }
}
