//! Requests: calls of the store as texts in one buffer, for the library that sends them.

use std::fmt;

use lockkeeper_core::protocol::{ScriptCall, Texts};
use lockkeeper_core::store::{Call, Form, StoreError, slot_of};

/// The digits of the number of keys and of the number of the request.
const LONGEST_NUMBERS: usize = 24;

/// A request that does not depend on the server it goes to. Its `Debug` output shows no arguments, because one may be a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// The command.
    pub(crate) name: &'static str,
    script: Option<Script>,
    /// The arguments after the script.
    pub(crate) args: Texts,
}

/// The first argument: one text for servers that shard the messages of names, another for the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Script {
    classic: &'static str,
    sharded: &'static str,
}

impl Outgoing {
    /// The request of a call: the script, the number of keys, the keys, the arguments.
    pub(crate) fn of(call: &Call) -> Result<Self, StoreError> {
        let script = call.item.script;
        let (name, classic, sharded) = match call.form {
            Form::Sha => ("EVALSHA", script.sha1, script.sharded_sha1),
            Form::Source => ("EVAL", script.source, script.sharded_source),
            _ => return Err(StoreError::not_sent("unknown form of a call")),
        };
        let ScriptCall { keys, args, .. } = &call.item;
        let bytes = keys.joined().len() + args.joined().len();
        let mut all = Texts::with_capacity(keys.len() + args.len() + 2, bytes + LONGEST_NUMBERS);
        all.push(keys.len());
        all.append(keys);
        all.push(call.request);
        all.append(args);
        Ok(Self {
            name,
            script: Some(Script { classic, sharded }),
            args: all,
        })
    }

    /// A request that is the same for every server.
    pub(crate) fn plain<'a>(name: &'static str, args: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name,
            script: None,
            args: Texts::of(args),
        }
    }

    /// The text of the script for a server that shards the messages of names, if `sharded`, or for one that does not.
    pub(crate) fn script(&self, sharded: bool) -> Option<&'static str> {
        let script = self.script.as_ref()?;
        Some(if sharded {
            script.sharded
        } else {
            script.classic
        })
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The slot of an item. All its keys are in one slot.
pub(crate) fn slot(item: &ScriptCall) -> u16 {
    item.keys.first().map_or(0, slot_of)
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
        let call = Call::new(item, 7, Form::Sha, Duration::from_secs(1));
        let request = Outgoing::of(&call).unwrap();
        let args: Vec<&str> = request.args.iter().collect();
        assert_eq!(args, ["2", "{a}main", "{a}holders", "7", "claim", ""]);
        assert_eq!(slot(&call.item), slot_of("a"));
        let plain = Outgoing::plain("CLUSTER", ["NODES"]);
        assert_eq!(plain.script(true), None);
        assert_eq!(plain.args.iter().collect::<Vec<_>>(), ["NODES"]);
        assert_eq!(Outgoing::plain("PING", []).args.len(), 0);
    }

    #[test]
    fn the_server_decides_which_text_of_a_script_it_gets() {
        let args = ["claim", "wake", "0"].map(str::to_owned);
        let item = || ScriptCall::new(&lock::RELEASE_THIN, ["main".to_owned()], args.clone());
        let call = |form| Call::new(item(), 1, form, Duration::from_secs(1));
        let script = |form, sharded| {
            let request = Outgoing::of(&call(form)).unwrap();
            (request.name, request.script(sharded))
        };
        let leave = &lock::RELEASE_THIN;
        for (form, sharded, name, text) in [
            (Form::Sha, false, "EVALSHA", leave.sha1),
            (Form::Sha, true, "EVALSHA", leave.sharded_sha1),
            (Form::Source, false, "EVAL", leave.source),
            (Form::Source, true, "EVAL", leave.sharded_source),
        ] {
            assert_eq!(script(form, sharded), (name, Some(text)));
        }
    }
}
