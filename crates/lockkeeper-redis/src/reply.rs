//! Replies: from fred's types into values of the store seam.

use fred::interfaces::Resp3Frame as Frame;
use fred::types::Value as FredValue;
use lockkeeper_core::store::Value;

/// The text of an error reply, its code word in front; `None` for any other reply.
pub(crate) fn error_text(frame: &Frame) -> Option<String> {
    match frame {
        Frame::SimpleError { data, .. } => Some(without_place(data)),
        Frame::BlobError { data, .. } => Some(without_place(&String::from_utf8_lossy(data))),
        _ => None,
    }
}

/// Redis 6.2 says in front of what fails in a script where that was: `@user_script: 53: -READONLY You can't …`, and before that
/// `ERR Error running script (call to f_…): ` if nobody caught it. Later versions begin with the code word.
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
pub(crate) fn text(frame: &Frame) -> Option<String> {
    match frame {
        Frame::BlobString { data, .. }
        | Frame::SimpleString { data, .. }
        | Frame::VerbatimString { data, .. } => Some(String::from_utf8_lossy(data).into_owned()),
        _ => None,
    }
}

/// The texts in a list, or in a map, which in RESP2 is a list of keys and values; what is none left out. None for any other
/// reply.
pub(crate) fn texts(frame: &Frame) -> Vec<String> {
    match frame {
        Frame::Array { data, .. } => data.iter().filter_map(text).collect(),
        Frame::Map { data, .. } => data
            .iter()
            .flat_map(|(key, value)| [key, value])
            .filter_map(text)
            .collect(),
        _ => Vec::new(),
    }
}

/// The value of a reply. What no script of ours answers (maps, floating-point numbers, an error inside an array)
/// becomes `Nil`, which no reader of a reply takes for anything.
pub(crate) fn value(frame: Frame) -> Value {
    match frame {
        Frame::Number { data, .. } => Value::Integer(data),
        Frame::BlobString { data, .. } | Frame::SimpleString { data, .. } => {
            Value::Bytes(data.into())
        }
        Frame::Array { data, .. } => Value::List(data.into_iter().map(value).collect()),
        _ => Value::Nil,
    }
}

/// Whether this answers the `PING` that carried `nonce`: the nonce alone, or after "pong" on a connection that has
/// subscriptions.
pub(crate) fn is_pong(reply: &FredValue, nonce: &str) -> bool {
    match reply {
        FredValue::Array(fields) => {
            matches!(fields.as_slice(), [_, echo] if is_pong(echo, nonce))
        }
        text => text.as_bytes() == Some(nonce.as_bytes()),
    }
}

/// How many sharded subscriptions a connection has, if this confirms the one to `channel`.
pub(crate) fn subscribed(reply: &FredValue, channel: &str) -> Option<usize> {
    match reply {
        FredValue::Array(fields) => match fields.as_slice() {
            [word, name, FredValue::Integer(count)] => {
                let it_is = word.as_bytes() == Some(b"ssubscribe".as_slice())
                    && name.as_bytes() == Some(channel.as_bytes());
                it_is.then_some(*count)?.try_into().ok()
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::store::Reply;
    use proptest::prelude::*;

    use super::*;

    fn text(text: &'static str) -> Frame {
        Frame::BlobString {
            data: text.into(),
            attributes: None,
        }
    }

    fn list(data: Vec<Frame>) -> Frame {
        Frame::Array {
            data,
            attributes: None,
        }
    }

    #[test]
    fn strings_numbers_and_lists_keep_their_shape() {
        let number = Frame::Number {
            data: -7,
            attributes: None,
        };
        let frame = list(vec![text("1"), number, Frame::Null, list(vec![text("a")])]);
        let expected = Value::List(vec![
            Value::Bytes(b"1".to_vec()),
            Value::Integer(-7),
            Value::Nil,
            Value::List(vec![Value::Bytes(b"a".to_vec())]),
        ]);
        assert_eq!(value(frame), expected);
    }

    #[test]
    fn only_an_error_reply_has_an_error_text() {
        let error = Frame::SimpleError {
            data: "NOSCRIPT No matching script".into(),
            attributes: None,
        };
        assert_eq!(
            error_text(&error).as_deref(),
            Some("NOSCRIPT No matching script")
        );
        assert_eq!(error_text(&text("ERR")), None);
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
    fn a_pong_is_known_by_its_nonce_with_and_without_subscriptions() {
        let text = |text: &str| FredValue::from(text);
        let list = FredValue::Array;
        assert!(is_pong(&text("n7"), "n7"));
        assert!(is_pong(&list(vec![text("pong"), text("n7")]), "n7"));
        assert!(!is_pong(&text("n8"), "n7"));
        assert!(!is_pong(&list(vec![text("pong"), text("n8")]), "n7"));
        assert!(!is_pong(&list(vec![text("n7")]), "n7"));
        assert!(!is_pong(&FredValue::Null, "n7"));
    }

    /// Any frame, as deep as a server might nest it.
    fn any_frame() -> impl Strategy<Value = Frame> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..12);
        let leaf = prop_oneof![
            Just(Frame::Null),
            any::<i64>().prop_map(|data| Frame::Number {
                data,
                attributes: None
            }),
            any::<f64>().prop_map(|data| Frame::Double {
                data,
                attributes: None
            }),
            any::<bool>().prop_map(|data| Frame::Boolean {
                data,
                attributes: None
            }),
            bytes().prop_map(|data| Frame::BlobString {
                data: data.into(),
                attributes: None
            }),
            bytes().prop_map(|data| Frame::SimpleString {
                data: data.into(),
                attributes: None
            }),
            bytes().prop_map(|data| Frame::BigNumber {
                data: data.into(),
                attributes: None
            }),
            bytes().prop_map(|data| Frame::BlobError {
                data: data.into(),
                attributes: None
            }),
            "[A-Z]{0,5} \\PC{0,9}".prop_map(|data| Frame::SimpleError {
                data: data.into(),
                attributes: None
            }),
            (0..9u64, "held|granted|busy|free|x").prop_map(|(number, status)| Frame::Array {
                data: [number.to_string(), status]
                    .map(|data| Frame::BlobString {
                        data: data.into(),
                        attributes: None
                    })
                    .into(),
                attributes: None
            }),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            let several = || proptest::collection::vec(inner.clone(), 0..6);
            prop_oneof![
                several().prop_map(list),
                several().prop_map(|data| Frame::Push {
                    data,
                    attributes: None
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_reply_is_one_of_ours_or_told_from_it(frame in any_frame(), request in 0..9u64) {
            let is_error = matches!(frame, Frame::SimpleError { .. } | Frame::BlobError { .. });
            prop_assert_eq!(error_text(&frame).is_some(), is_error);
            let is_list = matches!(frame, Frame::Array { .. });
            let _ = (super::text(&frame), texts(&frame));
            let value = value(frame);
            prop_assert_eq!(matches!(value, Value::List(_)), is_list);
            if let Ok(reply) = Reply::read(request, value.clone()) {
                let Value::List(fields) = value else {
                    panic!("read from {value:?}");
                };
                let number = fields[0].as_str().map(str::to_owned);
                prop_assert_eq!(number, Some(request.to_string()));
                prop_assert_eq!(fields[1].as_str(), Some(reply.status().as_str()));
            }
        }
    }
}
