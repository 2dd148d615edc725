//! Scripts that some servers have as a command, which costs them less: `lock/drop` is `DELIFEQ` of Valkey 9. Pure.
//!
//! A bare reply has no echo. So any answer but the two that the command can give is unknown, and a refusal that means "no such command" or
//! "not for this user" is answered by the script instead, from then on for this connection.

use lockkeeper_core::store::{Outcome, StoreError, Value};

use crate::reply;
use crate::request::Outgoing;
use crate::wire::Answer;

/// The first version of Valkey that has it.
const FIRST: u64 = 9;

/// Whether the server that answers `HELLO` with this has the command.
pub(crate) fn is_known(hello: &Value) -> bool {
    let valkey = reply::behind(hello, "server").as_deref() == Some("valkey");
    valkey && reply::major(hello).is_some_and(|major| major >= FIRST)
}

/// The request for the command that does the same, if there is one.
pub(crate) fn of(request: &Outgoing) -> Option<Outgoing> {
    let [key, _, value] = request.as_drop()?;
    Some(Outgoing::plain("DELIFEQ", [key, value]))
}

/// What the script would have answered; `None` if the command was refused and not executed, and the script may be.
pub(crate) fn answer(request: &Outgoing, answer: Answer) -> Option<Answer> {
    let number = request.as_drop().map_or("", |[_, number, _]| number);
    let line = |status| Ok(Value::Bytes(format!("{number} {status}").into_bytes()));
    match answer {
        Ok(Value::Integer(1)) => Some(line("DROPPED")),
        Ok(Value::Integer(0)) => Some(line("INFLATED")),
        // No script answers so, and the connection is replaced.
        Ok(other) => Some(Ok(other)),
        // As the script says it: another type has another value.
        Err(error) if error.code() == Some("WRONGTYPE") => Some(line("INFLATED")),
        Err(error) if is_unavailable(&error) => None,
        Err(error) => Some(Err(error)),
    }
}

/// Whether the server does not run this command, for this user at least.
fn is_unavailable(error: &StoreError) -> bool {
    let text = error.message();
    let unknown = text.starts_with("ERR unknown command");
    error.outcome() == Outcome::Refused && (unknown || error.code() == Some("NOPERM"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::protocol::ScriptCall;
    use lockkeeper_core::store::{Call, Form, Reply};
    use lockkeeper_lua::{Script, lock};

    use super::*;

    fn request(script: &'static Script, keys: &[&str], args: &[&str]) -> Outgoing {
        let item = ScriptCall::new(script, keys, args);
        Outgoing::of(&mut Call::new(item, 7, Form::Sha, Duration::ZERO)).unwrap()
    }

    #[test]
    fn a_drop_is_a_command_of_valkey_9_and_answers_as_the_script_does() {
        let drop = request(&lock::DROP, &["main"], &["mutex x a 5"]);
        let native = of(&drop).unwrap();
        assert_eq!(native.name, "DELIFEQ");
        assert_eq!(native.args().collect::<Vec<_>>(), ["main", "mutex x a 5"]);
        assert_eq!(of(&request(&lock::VERIFY, &["main"], &["a"])), None);
        for (number, expected) in [(1, "7 DROPPED"), (0, "7 INFLATED")] {
            let answer = answer(&drop, Ok(Value::Integer(number))).unwrap().unwrap();
            assert_eq!(answer.as_str(), Some(expected));
        }
        let other_type = StoreError::refused(
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        );
        let told = answer(&drop, Err(other_type)).unwrap().unwrap();
        assert_eq!(told.as_str(), Some("7 INFLATED"));
        for odd in [Value::Integer(2), Value::Nil, Value::Bytes(b"OK".to_vec())] {
            let read = Reply::read(7, answer(&drop, Ok(odd)).unwrap().unwrap());
            assert!(read.is_err(), "{read:?}");
        }
    }

    #[test]
    fn only_a_command_that_the_user_does_not_have_is_tried_as_a_script() {
        let drop = request(&lock::DROP, &["main"], &["mutex x a 5"]);
        for (text, falls_back) in [
            (
                "ERR unknown command 'DELIFEQ', with args beginning with: 'main'",
                true,
            ),
            (
                "NOPERM User app has no permissions to run the 'delifeq' command",
                true,
            ),
            ("MOVED 7 127.0.0.1:7001", false),
            (
                "READONLY You can't write against a read only replica.",
                false,
            ),
        ] {
            let answered = answer(&drop, Err(StoreError::refused(text)));
            assert_eq!(answered.is_none(), falls_back, "{text}");
        }
        let lost = answer(&drop, Err(StoreError::unknown("ERR unknown command")));
        assert!(lost.is_some(), "it may have been executed");
    }

    #[test]
    fn servers_say_who_they_are() {
        let hello = |server: &str, version: &str| {
            let texts = ["server", server, "version", version, "mode", "standalone"];
            Value::List(texts.map(|text| Value::Bytes(text.into())).into())
        };
        assert!(is_known(&hello("valkey", "9.1.0")) && is_known(&hello("valkey", "10.0.0")));
        assert!(!is_known(&hello("valkey", "8.1.4")) && !is_known(&hello("redis", "9.0.0")));
        assert!(!is_known(&Value::Nil));
    }
}
