//! When two replies count as equal: clocks may differ a little. With a server of another version than the engine's model, only the
//! codes of errors are compared.

use lockkeeper_core::store::Value;

use crate::Reply;
use crate::words::SHORTEST_TTL;

/// The version that a server reports: `redis 7.0.15`.
pub(crate) struct Version(pub(crate) String);

impl Version {
    /// Whether the embedded engine gives exactly the answers of this version.
    pub(crate) fn is_the_model(&self) -> bool {
        self.0.starts_with("redis 7.0.")
    }

    /// Whether `redis.call` fails with a text instead of a table.
    pub(crate) fn fails_with_text(&self) -> bool {
        self.0.starts_with("redis 6.")
    }

    pub(crate) fn replies_alike(&self, ours: &Reply, theirs: &Reply) -> bool {
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => self.values_alike(ours, theirs),
            (Err(ours), Err(theirs)) if self.is_the_model() => ours == theirs,
            (Err(ours), Err(theirs)) => {
                let code = |text| code(text).unwrap_or("ERR").to_owned();
                code(ours) == code(theirs)
            }
            _ => false,
        }
    }

    /// Equal except for clocks.
    fn values_alike(&self, ours: &Value, theirs: &Value) -> bool {
        match (ours, theirs) {
            (Value::List(ours), Value::List(theirs)) => {
                self.fails_with_text() && kind_of_failure(ours, theirs)
                    || ours.len() == theirs.len()
                        && ours
                            .iter()
                            .zip(theirs)
                            .all(|(ours, theirs)| self.values_alike(ours, theirs))
            }
            (Value::Integer(ours), Value::Integer(theirs)) => {
                ours == theirs || clocks_alike(*ours, *theirs)
            }
            (Value::Bytes(ours), Value::Bytes(theirs)) => {
                texts_alike(ours, theirs) || !self.is_the_model() && errors_alike(ours, theirs)
            }
            _ => ours == theirs,
        }
    }
}

/// What `pcall(redis.call, …)` has caught, in one of the shapes of a step: a table on our side, a text on theirs.
fn kind_of_failure(ours: &[Value], theirs: &[Value]) -> bool {
    let kind = |value: &Value, kind: &str| value.as_str() == Some(kind);
    match (ours, theirs) {
        ([Value::Nil, ours, Value::Nil], [Value::Nil, theirs, Value::Bytes(_)]) => {
            kind(ours, "table") && kind(theirs, "string")
        }
        _ => false,
    }
}

/// Two texts of errors in a list, where the store has no errors.
fn errors_alike(ours: &[u8], theirs: &[u8]) -> bool {
    let code = |text| str::from_utf8(text).ok().and_then(code);
    code(ours).is_some_and(|ours| code(theirs) == Some(ours))
}

/// The code of an error; `None` for a text that is no error. Redis 6.2 puts the place of the failure in the script before the
/// error, and writes no code when its own Lua functions fail.
fn code(text: &str) -> Option<&str> {
    const PLACES: [&str; 2] = ["@user_script:", "=[C]:"];
    let outside = text.strip_prefix("ERR Error running script");
    let inside = outside.and_then(|rest| rest.split_once("): "));
    let whole = inside.map_or(text, |(_, inside)| inside);
    let behind_place = |text: &'_ str| {
        let place = PLACES.iter().find(|place| text.starts_with(**place))?;
        text[place.len()..]
            .split_once(": ")
            .map(|(_, rest)| rest.len())
    };
    let mut text = whole;
    while let Some(left) = behind_place(text) {
        text = &text[text.len() - left..];
    }
    let failed = inside.is_some() || text.len() < whole.len();
    let word = text.split(' ').next().unwrap_or_default();
    let is_code = word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    is_code.then_some(word).or(failed.then_some("ERR"))
}

/// Equal except for clocks, in texts split at blanks and colons: a message contains a token, a waiter's entry a time, and a value a
/// token followed by flags.
pub(crate) fn texts_alike(ours: &[u8], theirs: &[u8]) -> bool {
    let parts = |text: &[u8]| -> Vec<Vec<u8>> {
        let parts = text.split(|byte| b" :".contains(byte));
        parts.map(<[u8]>::to_vec).collect()
    };
    let parted = |part: Vec<u8>| {
        let flags = part
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_lowercase());
        let (number, flags) = part.split_at(part.len() - flags.count());
        let number = Value::Bytes(number.to_vec()).as_i64()?;
        Some((number, flags.to_vec()))
    };
    ours == theirs
        || parts(ours).len() == parts(theirs).len()
            && parts(ours)
                .into_iter()
                .zip(parts(theirs))
                .all(|(ours, theirs)| {
                    ours == theirs
                        || parted(ours)
                            .zip(parted(theirs))
                            .is_some_and(|(ours, theirs)| {
                                ours.1 == theirs.1 && clocks_alike(ours.0, theirs.0)
                            })
                })
}

/// Numbers that are at most ten seconds apart: in ms if they are at least about the shortest ttl of the steps, in µs if they are
/// tokens, which are times.
fn clocks_alike(ours: i64, theirs: i64) -> bool {
    const TOKENS: i64 = 1_000_000_000_000_000;
    let apart = ours.abs_diff(theirs);
    match ours.min(theirs) {
        TOKENS.. => apart <= 10_000_000,
        ..TOKENS => ours.min(theirs) > SHORTEST_TTL - 10_000 && apart <= 10_000,
    }
}
