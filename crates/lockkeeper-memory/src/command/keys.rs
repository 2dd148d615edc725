//! Commands on keys of any type.

use lockkeeper_core::glob;

use super::database::{Database, Outcome, count, integer};
use crate::keyspace::Data;
use crate::resp::{Refusal, Resp};

pub(super) fn del(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let gone = args.iter().filter(|key| database.keyspace.remove(key));
    Ok(count(gone.count()))
}

pub(super) fn exists(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let there = args
        .iter()
        .filter(|key| database.keyspace.data(key).is_some());
    Ok(count(there.count()))
}

pub(super) fn kind(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let word = match database.keyspace.data(&args[0]) {
        None => "none",
        Some(Data::Text(_)) => "string",
        Some(Data::Hash(_)) => "hash",
        Some(Data::List(_)) => "list",
        Some(Data::SortedSet(_)) => "zset",
    };
    Ok(Resp::Status(word.into()))
}

pub(super) fn pttl(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    Ok(Resp::Integer(database.keyspace.left(&args[0])))
}

/// Without the options `NX`, `XX`, `GT`, `LT`: Redis 6.2 does not know them, so no script may use them.
pub(super) fn pexpire(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    if let Some(option) = args.get(2) {
        let option = String::from_utf8_lossy(option);
        return Err(Refusal(format!("ERR Unsupported option {option}").into()));
    }
    let moment = database
        .keyspace
        .now_millis()
        .checked_add(integer(&args[1])?)
        .ok_or_else(|| Refusal::invalid_expire_time("pexpire"))?;
    let found = database.keyspace.expire(&args[0], moment);
    Ok(count(usize::from(found)))
}

/// All keys on one page: how many keys a page has is up to the server, whatever `COUNT` says.
pub(super) fn scan(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let cursor = str::from_utf8(&args[0]).ok();
    if cursor.is_none_or(|cursor| cursor.parse::<u64>().is_err()) {
        return Err(Refusal::of("ERR invalid cursor"));
    }
    let mut pattern: &[u8] = b"*";
    for option in args[1..].chunks(2) {
        let [name, value] = option else {
            return Err(Refusal::SYNTAX);
        };
        if name.eq_ignore_ascii_case(b"match") {
            pattern = value;
        } else if !name.eq_ignore_ascii_case(b"count") || integer(value)? < 1 {
            return Err(Refusal::SYNTAX);
        }
    }
    let keys = database.keyspace.keys();
    let found = keys.filter(|key| glob::matches(pattern, key));
    let found = found.map(|key| Resp::Bulk(key.to_vec())).collect();
    Ok(Resp::Array(vec![
        Resp::Bulk(b"0".to_vec()),
        Resp::Array(found),
    ]))
}
