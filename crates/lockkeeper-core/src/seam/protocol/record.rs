//! Records on the wire: how they are written and read.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use lockkeeper_lua::Status;

use crate::seam::store::{Reply, Value};
use crate::words::owner::Owner;
use crate::words::record::Record;
use crate::words::token::FencingToken;

impl Record {
    /// Reads a script's reply with a record; `None` if the reply has none or breaks the contract.
    pub fn read(reply: &Reply) -> Option<Self> {
        let Status::Stored = reply.status() else {
            return None;
        };
        let text = |at: usize| reply.field(at).and_then(Value::as_str);
        let number = |at: usize| reply.field(at).and_then(Value::as_i64);
        let value = match (text(0)?, reply.field(1)?) {
            ("text", Value::Bytes(bytes)) => Some(bytes.clone()),
            ("hex", Value::Bytes(digits)) => Some(from_hex(digits)?),
            ("failed", _) => None,
            _ => return None,
        };
        let claim = text(2)?.to_owned();
        let token = FencingToken::new(number(3)?.try_into().ok()?);
        let at = Duration::from_millis(number(4)?.try_into().ok()?);
        Some(Self {
            value,
            owner: Owner::of_claim(&claim),
            claim,
            token: (token < FencingToken::END).then_some(token)?,
            at: SystemTime::UNIX_EPOCH.checked_add(at)?,
            left: u64::try_from(number(6)?).ok().map(Duration::from_millis),
            fingerprint: text(5)?.to_owned(),
        })
    }

    /// Returns a value in the form that scripts take: its format, and a text. A value that is text stays unchanged, so
    /// that people can read it on the server.
    pub fn write(value: &[u8]) -> (&'static str, String) {
        match str::from_utf8(value) {
            Ok(text) => ("text", text.to_owned()),
            Err(_) => ("hex", to_hex(value)),
        }
    }
}

/// Bytes as hex digits.
fn to_hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| match pair {
        [high, low] => {
            let digit = |it: u8| char::from(it).to_digit(16);
            u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
        }
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reply(form: &str, value: &[u8]) -> Reply {
        let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        let fields = vec![
            text("7"),
            text("STORED"),
            text(form),
            Value::Bytes(value.to_vec()),
            text("67e55044-10b1-426f-9247-bb680e5fe0c8:1/000000000000000a"),
            text("42"),
            text("1700000000000"),
            text("ab"),
            Value::Integer(1500),
        ];
        Reply::read(7, Value::List(fields)).unwrap()
    }

    #[test]
    fn a_record_says_who_when_and_what() {
        let record = Record::read(&reply("text", b"done")).unwrap();
        assert_eq!(record.value.as_deref(), Some(&b"done"[..]));
        assert!(record.owner.is_some());
        assert_eq!(
            (record.token.get(), record.fingerprint.as_str()),
            (42, "ab")
        );
        assert_eq!(record.left, Some(Duration::from_millis(1500)));
        assert!(Record::read(&reply("failed", b"")).unwrap().is_failure());
        assert!(!format!("{record:?}").contains("done"));
    }

    #[test]
    fn what_no_script_says_is_no_record() {
        for (form, value) in [("hex", &b"abc"[..]), ("hex", b"zz"), ("gone", b"ab")] {
            assert_eq!(Record::read(&reply(form, value)), None, "{form}");
        }
    }

    proptest! {
        #[test]
        fn any_value_comes_back(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let (form, text) = Record::write(&value);
            let read = Record::read(&reply(form, text.as_bytes())).unwrap();
            prop_assert_eq!(read.value, Some(value));
        }
    }
}
