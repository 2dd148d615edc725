//! The token that a request needs to revoke.

use std::env;
use std::path::Path;

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

use crate::exit::Failure;

/// The environment variable with the token, used if no file is named.
const VARIABLE: &str = "LOCKKEEPER_SERVE_TOKEN";

/// The shortest token: 16 hexadecimal digits have 64 bits, which nobody can guess over a network.
const SHORTEST: usize = 16;

/// The longest token: far longer than one needs to be, and short enough for a header.
const LONGEST: usize = 1024;

/// The token that a request must show to revoke.
pub(super) struct Token(String);

impl Token {
    /// Reads the token from this file or, without a file, from the environment. It is never on the command line, which anybody on
    /// the machine can read.
    pub(super) fn read(file: Option<&Path>) -> Result<Self, Failure> {
        let (text, place) = match file {
            Some(file) => {
                let shown = file.display();
                let text = std::fs::read_to_string(file).map_err(|error| {
                    Failure::usage(format!("cannot read the token in {shown}: {error}"))
                })?;
                (text, format!("in {shown}"))
            }
            None => {
                let text = env::var_os(VARIABLE).filter(|text| !text.is_empty());
                let text = text.ok_or_else(|| {
                    Failure::usage(format!(
                        "--allow-revoke needs a token of at least {SHORTEST} characters: put it into {VARIABLE}, or into a file for \
                         --token-file"
                    ))
                })?;
                let text = text.into_string().map_err(|_| unfit(VARIABLE))?;
                (text, format!("in {VARIABLE}"))
            }
        };
        Self::new(text.trim()).ok_or_else(|| unfit(&place))
    }

    fn new(text: &str) -> Option<Self> {
        let fits = (SHORTEST..=LONGEST).contains(&text.len());
        let travels = text.bytes().all(|byte| byte.is_ascii_graphic());
        (fits && travels).then(|| Self(text.to_owned()))
    }

    /// Whether a request shows the token. The time that this takes reveals nothing about the token except its length.
    pub(super) fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.as_bytes().split_first_chunk::<7>())
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "));
        shown.is_some_and(|(_, shown)| shown.ct_eq(self.0.as_bytes()).into())
    }
}

fn unfit(place: &str) -> Failure {
    Failure::usage(format!(
        "the token {place} is not valid: it needs {SHORTEST} to {LONGEST} ASCII characters without spaces, for example from \
         `openssl rand -hex 16`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_enough_and_fits_into_a_header() {
        assert!(Token::new("0123456789abcdef").is_some());
        for unfit in [
            "",
            "0123456789abcde",
            "0123456789 abcdef",
            "0123456789abcdéf",
        ] {
            assert!(Token::new(unfit).is_none(), "{unfit}");
        }
        assert!(Token::new(&"x".repeat(LONGEST + 1)).is_none());
    }

    #[test]
    fn only_the_whole_token_behind_its_scheme_is_shown() {
        let token = Token::new("0123456789abcdef").unwrap();
        for (header, expected) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer 0123456789abcdef", true),
            ("Bearer 0123456789abcdeF", false),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdef0", false),
            ("Bearer ", false),
            ("Basic 0123456789abcdef", false),
            ("0123456789abcdef", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, header.parse().unwrap());
            assert_eq!(token.is_shown(&headers), expected, "{header}");
        }
        assert!(!token.is_shown(&HeaderMap::new()));
    }
}
