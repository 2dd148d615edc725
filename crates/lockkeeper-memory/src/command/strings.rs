//! Commands on strings.

use super::database::{Database, Outcome, integer};
use crate::keyspace::{Data, Expiry};
use crate::resp::{Refusal, Resp};

pub(super) fn get(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let text = database.keyspace.text(&args[0])?;
    Ok(text.map_or(Resp::Nil, |text| Resp::Bulk(text.clone())))
}

/// `GETEX key`
pub(super) fn getex(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    if args.len() > 1 {
        return Err(Refusal::SYNTAX);
    }
    get(database, args)
}

/// `MGET key …`: a key that is no string counts as missing.
pub(super) fn mget(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let text = |key: &Vec<u8>| match database.keyspace.text(key) {
        Ok(Some(text)) => Resp::Bulk(text.clone()),
        _ => Resp::Nil,
    };
    Ok(Resp::Array(args.iter().map(text).collect()))
}

/// `INCR key`
pub(super) fn incr(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    add(database, &args[0], 1)
}

/// `INCRBY key increment`
pub(super) fn incrby(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    add(database, &args[0], integer(&args[1])?)
}

fn add(database: &mut Database, key: &[u8], increment: i64) -> Outcome {
    let before = database.keyspace.text(key)?;
    let before = before.map_or(Ok(0), |text| integer(text))?;
    let Some(number) = before.checked_add(increment) else {
        return Err(Refusal::of("ERR increment or decrement would overflow"));
    };
    let data = Data::Text(number.to_string().into_bytes());
    database.keyspace.put(key, data, Expiry::Keep);
    Ok(Resp::Integer(number))
}

/// `SET key value [NX | XX] [GET] [PX milliseconds | KEEPTTL]`
pub(super) fn set(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let [key, value, options @ ..] = args else {
        return Err(Refusal::SYNTAX);
    };
    let options = Options::read(options)?;
    let expiry = match options.px {
        Some(text) => Expiry::At(moment(database.keyspace.now_millis(), text)?),
        None if options.keep_ttl => Expiry::Keep,
        None => Expiry::Never,
    };
    let before = match options.get {
        true => Some(database.keyspace.text(key)?.map(|text| text.to_vec())),
        false => None,
    };
    let there = database.keyspace.data(key).is_some();
    let changes = options.only_if_there.is_none_or(|wanted| wanted == there);
    if changes {
        database
            .keyspace
            .put(key, Data::Text(value.clone()), expiry);
    }
    Ok(match before {
        Some(before) => before.map_or(Resp::Nil, Resp::Bulk),
        None if changes => Resp::OK,
        None => Resp::Nil,
    })
}

#[derive(Default)]
struct Options<'a> {
    only_if_there: Option<bool>,
    keep_ttl: bool,
    get: bool,
    px: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn read(words: &'a [Vec<u8>]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" if options.only_if_there != Some(true) => options.only_if_there = Some(false),
                b"xx" if options.only_if_there != Some(false) => options.only_if_there = Some(true),
                b"get" => options.get = true,
                b"keepttl" if options.px.is_none() => options.keep_ttl = true,
                b"px" if !options.keep_ttl => {
                    options.px = Some(words.next().ok_or(Refusal::SYNTAX)?);
                }
                _ => return Err(Refusal::SYNTAX),
            }
        }
        Ok(options)
    }
}

fn moment(now: i64, milliseconds: &[u8]) -> Result<i64, Refusal> {
    Some(integer(milliseconds)?)
        .filter(|milliseconds| *milliseconds > 0)
        .and_then(|milliseconds| now.checked_add(milliseconds))
        .ok_or_else(|| Refusal::invalid_expire_time("set"))
}
