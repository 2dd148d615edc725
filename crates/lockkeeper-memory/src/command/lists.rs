//! Commands on lists.

use super::database::{Database, Outcome, count, integer, range};
use crate::resp::{Refusal, Resp};

/// `RPUSH key element [element …]`: the new length of the list.
pub(super) fn rpush(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let length = database.keyspace.change_list(&args[0], |elements| {
        elements.extend_from_slice(&args[1..]);
        elements.len()
    })?;
    Ok(count(length))
}

/// `LPOP key`: one element. No script asks for several.
pub(super) fn lpop(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    if !args[1..].is_empty() {
        return Err(Refusal::of("ERR value is out of range, must be positive"));
    }
    let first = database.keyspace.change_list(&args[0], |elements| {
        (!elements.is_empty()).then(|| elements.remove(0))
    })?;
    Ok(first.map_or(Resp::Nil, Resp::Bulk))
}

pub(super) fn llen(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let elements = database.keyspace.list(&args[0])?;
    Ok(count(elements.map_or(0, Vec::len)))
}

/// `LINDEX key index`; a negative one counts from the end.
pub(super) fn lindex(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let Some(elements) = database.keyspace.list(&args[0])? else {
        return Ok(Resp::Nil);
    };
    let place = place(integer(&args[1])?, elements.len());
    let element = place.and_then(|place| elements.get(place));
    Ok(element.map_or(Resp::Nil, |element| Resp::Bulk(element.clone())))
}

/// `LSET key index element`; a negative index counts from the end.
pub(super) fn lset(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let length = database.keyspace.list(&args[0])?.map(Vec::len);
    let length = length.ok_or(Refusal::of("ERR no such key"))?;
    let place = place(integer(&args[1])?, length).filter(|place| *place < length);
    let place = place.ok_or(Refusal::of("ERR index out of range"))?;
    database
        .keyspace
        .change_list(&args[0], |elements| elements[place].clone_from(&args[2]))?;
    Ok(Resp::OK)
}

/// Where the element with this index is in a list of this length; a negative one counts from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    match index {
        ..0 => length.checked_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX)),
        _ => usize::try_from(index).ok(),
    }
}

/// `LPOS key element`: its first index, counted from 0. No options.
pub(super) fn lpos(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    if !args[2..].is_empty() {
        return Err(Refusal::SYNTAX);
    }
    let mut elements = database.keyspace.list(&args[0])?.into_iter().flatten();
    let place = elements.position(|element| *element == args[1]);
    Ok(place.map_or(Resp::Nil, count))
}

/// `LRANGE key first last`; a negative index counts from the end.
pub(super) fn lrange(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    // Numbers are read before the key.
    range(&args[1], &args[2], 0)?;
    let elements = database.keyspace.list(&args[0])?.map_or(&[][..], |it| it);
    let (first, end) = range(&args[1], &args[2], elements.len())?;
    let found = elements.iter().take(end).skip(first);
    Ok(Resp::Array(found.cloned().map(Resp::Bulk).collect()))
}

/// `LREM key count element`: how many were removed. A count of 0 removes all of them, a positive one that many from the front, a
/// negative one from the end.
pub(super) fn lrem(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let number = integer(&args[1])?;
    let most = match number {
        0 => usize::MAX,
        _ => usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX),
    };
    let gone = database.keyspace.change_list(&args[0], |elements| {
        let (before, mut gone) = (elements.len(), 0);
        let mut stays = |element: &Vec<u8>| {
            let goes = gone < most && *element == args[2];
            gone += usize::from(goes);
            !goes
        };
        if number < 0 {
            elements.reverse();
        }
        elements.retain(&mut stays);
        if number < 0 {
            elements.reverse();
        }
        before - elements.len()
    })?;
    Ok(count(gone))
}
