//! Answers to commands that are sent in place of scripts, which costs the server less: `lock/drop` is `LREM`. Pure.

use lockkeeper_core::store::Value;

use crate::request::Outgoing;
use crate::wire::Answer;

/// What the script would have answered. A bare reply has no echo: any answer but the two that the command can give stays as it is,
/// which no script answers, and the connection is replaced.
pub(crate) fn answer(request: &Outgoing, answer: Answer) -> Answer {
    let Some(number) = request.stands_for() else {
        return answer;
    };
    let line = |status| Ok(Value::Bytes(format!("{number} {status}").into_bytes()));
    match answer {
        Ok(Value::Integer(1)) => line("DROPPED"),
        Ok(Value::Integer(0)) => line("INFLATED"),
        // As the script says it: another type has another value.
        Err(error) if error.code() == Some("WRONGTYPE") => line("INFLATED"),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::protocol::ScriptCall;
    use lockkeeper_core::store::{Call, Form, Outcome, Reply, StoreError};
    use lockkeeper_lua::{Script, lock};

    use super::*;

    fn request(script: &'static Script, keys: &[&str], args: &[&str]) -> Outgoing {
        let item = ScriptCall::new(script, keys, args);
        Outgoing::of(&mut Call::new(item, 7, Form::Sha, Duration::ZERO)).unwrap()
    }

    #[test]
    fn a_drop_is_a_command_and_answers_as_the_script_does() {
        let drop = request(&lock::DROP, &["main"], &["mutex x a 5"]);
        assert_eq!((drop.name, drop.script(false)), ("LREM", None));
        let words: Vec<_> = drop.args().collect();
        assert_eq!(words, ["main", "1", "mutex x a 5"]);
        let other_type = StoreError::refused(
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        );
        for (told, expected) in [
            (Ok(Value::Integer(1)), "7 DROPPED"),
            (Ok(Value::Integer(0)), "7 INFLATED"),
            (Err(other_type), "7 INFLATED"),
        ] {
            assert_eq!(answer(&drop, told).unwrap().as_str(), Some(expected));
        }
    }

    #[test]
    fn a_drop_that_is_answered_otherwise_is_unknown_or_refused_as_it_is() {
        let drop = request(&lock::DROP, &["main"], &["mutex x a 5"]);
        for odd in [Value::Integer(2), Value::Nil, Value::Bytes(b"OK".to_vec())] {
            let read = Reply::read(7, answer(&drop, Ok(odd)).unwrap());
            assert!(read.is_err(), "{read:?}");
        }
        for text in ["MOVED 7 127.0.0.1:7001", "READONLY You can't write"] {
            let error = answer(&drop, Err(StoreError::refused(text))).unwrap_err();
            assert_eq!(error.outcome(), Outcome::Refused);
        }
    }

    #[test]
    fn every_other_script_is_sent_as_it_is() {
        let verify = request(&lock::VERIFY, &["main"], &["a"]);
        assert_eq!(verify.name, "EVALSHA");
        assert_eq!(
            answer(&verify, Ok(Value::Integer(1))).unwrap(),
            Value::Integer(1)
        );
    }
}
