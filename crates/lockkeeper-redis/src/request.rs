//! Requests: calls of the store seam as fred takes them.

use fred::bytes::Bytes;
use fred::types::{CustomCommand, Value as FredValue};
use fred::util::redis_keyslot;
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Form, Request, StoreError};

use crate::connection::command;

/// A request before it is known who gets it.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    command: CustomCommand,
    args: Vec<FredValue>,
    /// What stands for the first argument where messages of names are sharded.
    sharded: Option<&'static str>,
}

impl Outgoing {
    /// The request of a call.
    pub(crate) fn of(call: &Call) -> Result<Self, StoreError> {
        let script = call.item.script;
        let (name, classic, sharded) = match call.form {
            Form::Sha => ("EVALSHA", script.sha1, script.sharded_sha1),
            Form::Source => ("EVAL", script.source, script.sharded_source),
            _ => return Err(StoreError::not_sent("unknown form of a call")),
        };
        Ok(Self {
            command: command(name, slot(&call.item)),
            args: arguments(classic, call.request, &call.item),
            sharded: Some(sharded),
        })
    }

    /// One that is the same for everybody.
    pub(crate) const fn plain(command: CustomCommand, args: Vec<FredValue>) -> Self {
        Self {
            command,
            args,
            sharded: None,
        }
    }

    /// The command and its arguments for a server whose messages of names are `sharded`, or not.
    pub(crate) fn into_words(mut self, sharded: bool) -> (CustomCommand, Vec<FredValue>) {
        if let (true, Some(script), Some(first)) = (sharded, self.sharded, self.args.first_mut()) {
            *first = FredValue::from_static_str(script);
        }
        (self.command, self.args)
    }
}

/// The slot of an item, all of whose keys lie in one.
pub(crate) fn slot(item: &ScriptCall) -> u16 {
    let first = item.keys.first();
    first.map_or(0, |key| redis_keyslot(key.as_bytes()))
}

/// What stands after `EVALSHA` or `EVAL`: the script, the number of keys, the keys, the arguments.
///
/// All texts are cut from one buffer. fred clones each of them on its way to the socket, which is an allocation for a
/// text of its own and counting for a piece of a buffer; a batch of renewals has three hundred.
fn arguments(script: &'static str, request: Request, item: &ScriptCall) -> Vec<FredValue> {
    let (count, request) = (item.keys.len().to_string(), request.to_string());
    let texts = || {
        let keys = std::iter::once(&*count).chain(item.keys.iter());
        let args = std::iter::once(&*request).chain(item.args.iter());
        keys.chain(args)
    };
    let buffer = [&*count, item.keys.joined(), &*request, item.args.joined()].concat();
    let mut rest = Bytes::from(buffer);
    let mut arguments = Vec::with_capacity(1 + texts().count());
    arguments.push(FredValue::from_static_str(script));
    arguments.extend(texts().map(|text| FredValue::Bytes(rest.split_to(text.len()))));
    arguments
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_lua::lock;

    use super::*;

    #[test]
    fn the_arguments_stand_in_the_order_of_the_command() {
        let keys = ["{a}main", "{a}holders"].map(str::to_owned);
        let args = ["claim", ""].map(str::to_owned);
        let item = ScriptCall::new(&lock::VERIFY_INFLATED, keys, args);
        let texts: Vec<_> = arguments("sha", 7, &item)
            .iter()
            .map(|value| value.as_str().map(|text| text.to_string()))
            .collect();
        let expected = ["sha", "2", "{a}main", "{a}holders", "7", "claim", ""];
        assert_eq!(texts, expected.map(|text| Some(text.to_owned())));
        assert_eq!(slot(&item), redis_keyslot(b"a"));
    }

    #[test]
    fn the_server_decides_which_text_of_a_script_it_gets() {
        let args = ["claim", "wake", "0"].map(str::to_owned);
        let item = || ScriptCall::new(&lock::RELEASE_THIN, ["main".to_owned()], args.clone());
        let call = |form| Call::new(item(), 1, form, Duration::from_secs(1));
        let script = |form, sharded| {
            let (command, args) = Outgoing::of(&call(form)).unwrap().into_words(sharded);
            (command.cmd.to_string(), args[0].as_string().unwrap())
        };
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let leave = &lock::RELEASE_THIN;
        assert_eq!(script(Form::Sha, false), pair("EVALSHA", leave.sha1));
        assert_eq!(script(Form::Sha, true), pair("EVALSHA", leave.sharded_sha1));
        assert_eq!(script(Form::Source, false), pair("EVAL", leave.source));
        assert_eq!(
            script(Form::Source, true),
            pair("EVAL", leave.sharded_source)
        );
        let plain = Outgoing::plain(command("CLUSTER", 0), vec!["NODES".into()]);
        assert_eq!(plain.into_words(true).1, ["NODES".into()]);
    }
}
