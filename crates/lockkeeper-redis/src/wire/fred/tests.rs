use fred::interfaces::Resp3Frame as Frame;
use lockkeeper_core::store::{Outcome, Reply, Value};
use lockkeeper_testkit::until::PATIENCE;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// fred would let this request wait until it times out.
#[tokio::test]
async fn a_request_queued_after_the_end_is_answered_when_the_owner_lets_go() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::parse(&format!("redis://{}", listener.local_addr().unwrap())).unwrap();
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // fred's own PING, CLIENT ID and INFO; then the first PING and the HELLO of the store.
        let mut replies = ["+PONG\r\n", ":1\r\n", "$0\r\n\r\n", "+PONG\r\n", "*0\r\n"].iter();
        while replies.len() > 0 {
            let mut read = [0; 1024];
            let length = stream.read(&mut read).await.unwrap();
            let commands = read[..length].iter().filter(|byte| **byte == b'*').count();
            assert_ne!(commands, 0);
            for reply in replies.by_ref().take(commands) {
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
        }
        stream
    };
    let options = RedisOptions::new();
    let (opened, stream) = tokio::join!(open(&target, None, &options, None), server);
    let Opened {
        wire, mut lifeline, ..
    } = opened.unwrap();
    drop(stream);
    let why = lifeline.end().await;
    assert!(!why.is_empty());

    let get = Outgoing::plain("GET", ["key"]);
    let answer = timeout(PATIENCE, wire.request(&get, false, 2 * PATIENCE));
    let error = answer.await.expect("it hangs").unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
}

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
    assert_eq!(answer(frame).unwrap(), expected);
    let map = Frame::Map {
        data: [(text("a"), text("b"))].into_iter().collect(),
        attributes: None,
    };
    let pair = list(vec![text("a"), text("b")]);
    assert_eq!(answer(map).unwrap(), answer(pair).unwrap());
}

#[test]
fn only_an_error_reply_is_a_refusal() {
    let error = Frame::SimpleError {
        data: "NOSCRIPT No matching script".into(),
        attributes: None,
    };
    assert_eq!(answer(error).unwrap_err().code(), Some("NOSCRIPT"));
    answer(text("ERR")).unwrap();
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
        let is_list = matches!(frame, Frame::Array { .. });
        let answered = answer(frame);
        prop_assert_eq!(answered.is_err(), is_error);
        let Ok(value) = answered else {
            return Ok(());
        };
        let _ = (reply::text(&value), reply::texts(&value));
        prop_assert_eq!(matches!(value, Value::List(_)), is_list);
        if let Ok(reply) = Reply::read(request, value.clone()) {
            let words: Vec<&str> = match &value {
                Value::List(fields) => fields.iter().filter_map(Value::as_str).collect(),
                line => line.as_str().unwrap_or_default().split(' ').collect(),
            };
            prop_assert_eq!(words[0].parse(), Ok(request));
            prop_assert_eq!(words[1], reply.status().as_str());
        }
    }
}
