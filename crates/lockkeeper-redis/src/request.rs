//! Requests: calls of the store seam as bytes and offsets, for whichever library sends them.

use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Form, StoreError, slot_of};

/// A request before it is known who gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// The command.
    pub(crate) name: &'static str,
    script: Option<Script>,
    /// All further arguments, one behind the other, and where each ends.
    texts: String,
    ends: Vec<usize>,
}

/// The first argument: one where messages of names are sharded, another one elsewhere.
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
        let (count, number) = (keys.len().to_string(), call.request.to_string());
        let keys = std::iter::once(&count).chain(keys);
        let all = keys.chain(std::iter::once(&number)).chain(args);
        Ok(Self {
            script: Some(Script { classic, sharded }),
            ..Self::plain(name, all.map(String::as_str))
        })
    }

    /// One that is the same for everybody.
    pub(crate) fn plain<'a>(
        name: &'static str,
        args: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
    ) -> Self {
        let args = args.into_iter();
        let mut texts = String::with_capacity(args.clone().map(str::len).sum());
        let mut ends = Vec::with_capacity(args.clone().count());
        for text in args {
            texts.push_str(text);
            ends.push(texts.len());
        }
        Self {
            name,
            script: None,
            texts,
            ends,
        }
    }

    /// The text of the script for a server whose messages of names are `sharded`, or not.
    pub(crate) fn script(&self, sharded: bool) -> Option<&'static str> {
        let script = self.script.as_ref()?;
        Some(if sharded {
            script.sharded
        } else {
            script.classic
        })
    }

    /// All that stands behind the script, one behind the other.
    #[cfg(feature = "fred")]
    pub(crate) fn texts(&self) -> &str {
        &self.texts
    }

    /// What stands behind the script.
    pub(crate) fn args(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.ends.len()).map(|index| {
            let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.texts[start..self.ends[index]]
        })
    }
}

/// The slot of an item, all of whose keys lie in one.
pub(crate) fn slot(item: &ScriptCall) -> u16 {
    item.keys.first().map_or(0, |key| slot_of(key))
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
        let args: Vec<&str> = request.args().collect();
        assert_eq!(args, ["2", "{a}main", "{a}holders", "7", "claim", ""]);
        assert_eq!(slot(&call.item), slot_of("a"));
        let plain = Outgoing::plain("CLUSTER", ["NODES"]);
        assert_eq!(plain.script(true), None);
        assert_eq!(plain.args().collect::<Vec<_>>(), ["NODES"]);
        assert_eq!(Outgoing::plain("PING", []).args().len(), 0);
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
