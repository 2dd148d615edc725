//! Requests: calls of the store, and the words in which the library sends them. The texts of a call are not copied before that.

use std::fmt;

use lockkeeper_core::protocol::{ScriptCall, Texts};
use lockkeeper_core::store::{Call, Form, StoreError, slot_of};

/// A request that does not depend on the server it goes to. Its `Debug` output shows no arguments, because one may be a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// The command.
    pub(crate) name: &'static str,
    of: Of,
}

#[derive(Clone, PartialEq, Eq)]
enum Of {
    /// A run of a script under a number.
    Call {
        script: Script,
        keys: Texts,
        args: Texts,
        count: Number,
        request: Number,
    },
    /// A `lock/drop`, which is one command: `LREM <main> 1 <value>`. Its reply has no echo; `request` is what the script would have echoed.
    Drop {
        keys: Texts,
        one: Number,
        args: Texts,
        request: Number,
    },
    /// Words that are the same for every server.
    Plain(Texts),
}

/// The first argument: one text for servers that shard the messages of names, another for the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Script {
    classic: &'static str,
    sharded: &'static str,
}

/// A number in decimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Number {
    digits: [u8; 20],
    from: usize,
}

impl Number {
    fn new(mut number: u64) -> Self {
        let (mut digits, mut from) = ([b'0'; 20], 19);
        loop {
            digits[from] += u8::try_from(number % 10).unwrap_or_default();
            number /= 10;
            if number == 0 {
                return Self { digits, from };
            }
            from -= 1;
        }
    }

    fn as_str(&self) -> &str {
        // Digits are ASCII.
        std::str::from_utf8(&self.digits[self.from..]).unwrap_or_default()
    }
}

impl Outgoing {
    /// The request of a call: the script, the number of keys, the keys, the number of the request, the arguments.
    pub(crate) fn of(call: &mut Call) -> Result<Self, StoreError> {
        let script = call.item.script;
        let (name, classic, sharded) = match call.form {
            Form::Sha => ("EVALSHA", script.sha1, script.sharded_sha1),
            Form::Source => ("EVAL", script.source, script.sharded_source),
            _ => return Err(StoreError::not_sent("unknown form of a call")),
        };
        let keys = std::mem::take(&mut call.item.keys);
        let args = std::mem::take(&mut call.item.args);
        let request = Number::new(call.request);
        if script.name == "lock/drop" {
            let one = Number::new(1);
            let of = Of::Drop {
                keys,
                one,
                args,
                request,
            };
            return Ok(Self { name: "LREM", of });
        }
        let count = Number::new(keys.len().try_into().unwrap_or_default());
        Ok(Self {
            name,
            of: Of::Call {
                script: Script { classic, sharded },
                keys,
                args,
                count,
                request,
            },
        })
    }

    /// A request that is the same for every server.
    pub(crate) fn plain<'a>(name: &'static str, args: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            name,
            of: Of::Plain(Texts::of(args)),
        }
    }

    /// What the script would have echoed that this command stands for; `None` if it is a script, or stands for none.
    pub(crate) fn stands_for(&self) -> Option<&str> {
        match &self.of {
            Of::Drop { request, .. } => Some(request.as_str()),
            _ => None,
        }
    }

    /// The text of the script for a server that shards the messages of names, if `sharded`, or for one that does not.
    pub(crate) fn script(&self, sharded: bool) -> Option<&'static str> {
        match &self.of {
            Of::Call { script, .. } if sharded => Some(script.sharded),
            Of::Call { script, .. } => Some(script.classic),
            Of::Drop { .. } | Of::Plain(_) => None,
        }
    }

    /// The arguments after the script.
    pub(crate) fn args(&self) -> impl Iterator<Item = &str> + Clone {
        let (count, keys, request, args) = match &self.of {
            Of::Call {
                keys,
                args,
                count,
                request,
                ..
            } => (Some(count), Some(keys), Some(request), args),
            Of::Drop {
                keys, one, args, ..
            } => (None, Some(keys), Some(one), args),
            Of::Plain(args) => (None, None, None, args),
        };
        let keys = keys.into_iter().flat_map(Texts::iter);
        let before = count.map(Number::as_str).into_iter().chain(keys);
        let behind = request.map(Number::as_str).into_iter().chain(args.iter());
        before.chain(behind)
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
        assert_eq!(slot(&item), slot_of("a"));
        let mut call = Call::new(item, 7, Form::Sha, Duration::from_secs(1));
        let request = Outgoing::of(&mut call).unwrap();
        let args: Vec<&str> = request.args().collect();
        assert_eq!(args, ["2", "{a}main", "{a}holders", "7", "claim", ""]);
        let plain = Outgoing::plain("CLUSTER", ["NODES"]);
        assert_eq!(plain.script(true), None);
        assert_eq!(plain.args().collect::<Vec<_>>(), ["NODES"]);
        assert_eq!(Outgoing::plain("PING", []).args().count(), 0);
    }

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 7, 10, 1_000, u64::MAX] {
            assert_eq!(Number::new(number).as_str(), number.to_string());
        }
    }

    #[test]
    fn the_server_decides_which_text_of_a_script_it_gets() {
        let keys = ["main", "counter", "tombstone", "holders", "queue", "state"];
        let args = ["claim", "mutex", "x", "wake", "0", "0", "0", "0", "0"];
        let item = || ScriptCall::new(&lock::RELEASE, keys, args);
        let call = |form| Call::new(item(), 1, form, Duration::from_secs(1));
        let script = |form, sharded| {
            let request = Outgoing::of(&mut call(form)).unwrap();
            (request.name, request.script(sharded))
        };
        let leave = &lock::RELEASE;
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
