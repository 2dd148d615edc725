//! Commands on hashes.

use super::database::{Database, Outcome, count, integer};
use crate::resp::{Refusal, Resp};

/// `HSET key field value [field value …]`: how many fields are new.
pub(super) fn hset(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let (key, pairs) = (&args[0], &args[1..]);
    if !pairs.len().is_multiple_of(2) {
        return Err(Refusal::wrong_number_of_arguments("hset"));
    }
    let new = database.keyspace.change_hash(key, |fields| {
        let new = |pair: &&[Vec<u8>]| fields.insert(pair[0].clone(), pair[1].clone()).is_none();
        pairs.chunks_exact(2).filter(new).count()
    })?;
    Ok(count(new))
}

pub(super) fn hget(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let value = database
        .keyspace
        .hash(&args[0])?
        .and_then(|fields| fields.get(&args[1]));
    Ok(value.map_or(Resp::Nil, |value| Resp::Bulk(value.clone())))
}

/// The values of the fields, nil for a missing one.
pub(super) fn hmget(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let fields = database.keyspace.hash(&args[0])?;
    let value = |field: &Vec<u8>| {
        let value = fields.and_then(|fields| fields.get(field));
        value.map_or(Resp::Nil, |value| Resp::Bulk(value.clone()))
    };
    Ok(Resp::Array(args[1..].iter().map(value).collect()))
}

/// Field, value, field, value …, in the order of the fields (a server promises none).
pub(super) fn hgetall(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let fields = database.keyspace.hash(&args[0])?.into_iter().flatten();
    let words = fields.flat_map(|(field, value)| [field, value]);
    Ok(Resp::Array(words.cloned().map(Resp::Bulk).collect()))
}

/// How many fields there are.
pub(super) fn hlen(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let fields = database.keyspace.hash(&args[0])?;
    Ok(count(fields.map_or(0, |fields| fields.len())))
}

pub(super) fn hdel(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let gone = database.keyspace.change_hash(&args[0], |fields| {
        let gone = |field: &&Vec<u8>| fields.remove(*field).is_some();
        args[1..].iter().filter(gone).count()
    })?;
    Ok(count(gone))
}

/// `HINCRBY key field number`
pub(super) fn hincrby(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let (key, field) = (&args[0], &args[1]);
    let more = integer(&args[2])?;
    let value = database
        .keyspace
        .hash(key)?
        .and_then(|fields| fields.get(field));
    let before = value.map_or(Ok(0), |value| {
        integer(value).map_err(|_| Refusal::of("ERR hash value is not an integer"))
    })?;
    let Some(number) = before.checked_add(more) else {
        return Err(Refusal::of("ERR increment or decrement would overflow"));
    };
    database.keyspace.change_hash(key, |fields| {
        fields.insert(field.clone(), number.to_string().into_bytes());
    })?;
    Ok(Resp::Integer(number))
}

/// The fields, in their order (a server promises none).
pub(super) fn hkeys(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let fields = database.keyspace.hash(&args[0])?.into_iter().flatten();
    let names = fields.map(|(field, _)| Resp::Bulk(field.clone()));
    Ok(Resp::Array(names.collect()))
}

/// The values, in the order of the fields (a server promises none).
pub(super) fn hvals(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let fields = database.keyspace.hash(&args[0])?.into_iter().flatten();
    let values = fields.map(|(_, value)| Resp::Bulk(value.clone()));
    Ok(Resp::Array(values.collect()))
}
