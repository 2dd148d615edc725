//! Reads values of replies.

use lockkeeper_core::store::{StoreError, Value};

/// The refusal in an error reply, which begins with its code.
pub(crate) fn refused(text: &str) -> StoreError {
    StoreError::refused(without_place(text))
}

/// Redis 6.2 puts the place in the script before an error, as in `@user_script: 53: -READONLY You can't …`, and before that
/// `ERR Error running script (call to f_…): ` if the script did not catch it. Later versions begin with the error code.
fn without_place(text: &str) -> String {
    const PLACE: &str = "@user_script:";
    let uncaught = text.strip_prefix("ERR Error running script");
    let mut inside = uncaught
        .and_then(|text| text.split_once("): "))
        .map_or(text, |(_, inside)| inside);
    while let Some((_, behind)) = inside
        .strip_prefix(PLACE)
        .and_then(|place| place.split_once(": "))
    {
        inside = behind;
    }
    if inside.len() == text.len() {
        return text.to_owned();
    }
    let inside = inside.strip_prefix('-').unwrap_or(inside);
    let word = inside.split(' ').next().unwrap_or_default();
    match word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()) {
        true => inside.to_owned(),
        false => format!("ERR {inside}"),
    }
}

/// The text of a string; `None` for any other reply.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// The texts in a list, without its other values. Empty for any other reply.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::List(values) => values.iter().filter_map(text).collect(),
        _ => Vec::new(),
    }
}

/// The text behind a word in a list of names and values, as `HELLO` answers.
pub(crate) fn behind(list: &Value, word: &str) -> Option<String> {
    let mut texts = texts(list).into_iter();
    texts.find(|text| text == word)?;
    texts.next()
}

/// The first number of the server's version, in an answer to `HELLO`.
pub(crate) fn major(hello: &Value) -> Option<u64> {
    behind(hello, "version")?.split('.').next()?.parse().ok()
}

/// Whether this answers the `PING` that carried `nonce`: the nonce alone, or after "pong" on a connection with subscriptions.
pub(crate) fn is_pong(value: &Value, nonce: &str) -> bool {
    match value {
        Value::List(fields) => matches!(fields.as_slice(), [_, echo] if is_pong(echo, nonce)),
        text => text.as_str() == Some(nonce),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Bytes(text.into())
    }

    #[test]
    fn an_error_within_a_script_of_redis_6_2_begins_with_its_code_word() {
        for (text, expected) in [
            (
                "@user_script: 53: -READONLY You can't write against a read only replica.",
                "READONLY You can't write against a read only replica.",
            ),
            (
                "ERR Error running script (call to f_00): @user_script:7: @user_script: 7: -OOM command not allowed",
                "OOM command not allowed",
            ),
            (
                "ERR Error running script (call to f_00): @user_script:1: WRONGTYPE Operation against a key",
                "WRONGTYPE Operation against a key",
            ),
            (
                "@user_script: 1: Unknown Redis command called from Lua script",
                "ERR Unknown Redis command called from Lua script",
            ),
            ("READONLY You can't", "READONLY You can't"),
            (
                "ERR value: @user_script:1: x",
                "ERR value: @user_script:1: x",
            ),
        ] {
            assert_eq!(without_place(text), expected);
        }
    }

    #[test]
    fn a_pong_has_the_nonce_alone_or_behind_a_word() {
        let list = Value::List;
        assert!(is_pong(&text("n7"), "n7"));
        assert!(is_pong(&list(vec![text("pong"), text("n7")]), "n7"));
        assert!(!is_pong(&text("n8"), "n7"));
        assert!(!is_pong(&list(vec![text("pong"), text("n8")]), "n7"));
        assert!(!is_pong(&list(vec![text("n7")]), "n7"));
        assert!(!is_pong(&Value::Nil, "n7"));
    }
}
