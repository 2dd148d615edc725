//! Requests: calls of the store seam as fred takes them.

use fred::bytes::Bytes;
use fred::types::Value as FredValue;
use fred::util::redis_keyslot;
use lockkeeper_core::protocol::Item;
use lockkeeper_core::store::{Call, Form, Request, StoreError};

/// The command of a call, and how that names the script.
pub(crate) fn words(call: &Call) -> Result<(&'static str, &'static str), StoreError> {
    match call.form {
        Form::Sha => Ok(("EVALSHA", call.item.script.sha1)),
        Form::Source => Ok(("EVAL", call.item.script.source)),
        _ => Err(StoreError::not_sent("unknown form of a call")),
    }
}

/// The slot of an item, all of whose keys lie in one.
pub(crate) fn slot(item: &Item) -> u16 {
    let first = item.keys.first();
    first.map_or(0, |key| redis_keyslot(key.as_bytes()))
}

/// What stands after `EVALSHA` or `EVAL`: the script, the number of keys, the keys, the arguments.
///
/// All texts are cut from one buffer. fred clones each of them on its way to the socket, which is an allocation for a
/// text of its own and counting for a piece of a buffer; a batch of renewals has three hundred.
pub(crate) fn arguments(script: &'static str, request: Request, item: &Item) -> Vec<FredValue> {
    let (count, request) = (item.keys.len().to_string(), request.to_string());
    let texts = || {
        let keys = std::iter::once(&count).chain(&item.keys);
        keys.chain(std::iter::once(&request)).chain(&item.args)
    };
    let mut buffer = String::with_capacity(texts().map(String::len).sum());
    buffer.extend(texts().map(String::as_str));
    let mut rest = Bytes::from(buffer);
    let mut arguments = Vec::with_capacity(1 + texts().count());
    arguments.push(FredValue::from_static_str(script));
    arguments.extend(texts().map(|text| FredValue::Bytes(rest.split_to(text.len()))));
    arguments
}

#[cfg(test)]
mod tests {
    use lockkeeper_lua::mutex;

    use super::*;

    #[test]
    fn the_arguments_stand_in_the_order_of_the_command() {
        let keys = ["{a}main", "{a}fence", "{a}gone"].map(str::to_owned);
        let args = ["claim", "30000", "", "0"].map(str::to_owned);
        let item = Item::new(&mutex::ACQUIRE, keys, args);
        let texts: Vec<_> = arguments("sha", 7, &item)
            .iter()
            .map(|value| value.as_str().map(|text| text.to_string()))
            .collect();
        let expected = [
            "sha", "3", "{a}main", "{a}fence", "{a}gone", "7", "claim", "30000", "", "0",
        ];
        assert_eq!(texts, expected.map(|text| Some(text.to_owned())));
        assert_eq!(slot(&item), redis_keyslot(b"a"));
    }
}
