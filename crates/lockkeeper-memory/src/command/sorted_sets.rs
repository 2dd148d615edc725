//! Commands on sorted sets.

use super::database::{Database, Outcome, count, integer, range};
use crate::resp::{Refusal, Resp};

/// The largest score up to which a server, whose scores are doubles, can count in ones.
const LARGEST_SCORE: u64 = 1 << 53;

/// `ZADD key [XX] score member [score member …]`: how many members are new, none with `XX`. Scores are whole numbers only.
pub(super) fn zadd(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let (key, mut pairs) = (&args[0], &args[1..]);
    let only_if_there = pairs[0].eq_ignore_ascii_case(b"xx");
    if only_if_there {
        pairs = &pairs[1..];
    }
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(Refusal::SYNTAX);
    }
    let scores = pairs
        .chunks_exact(2)
        .map(|pair| Ok((&pair[1], score(&pair[0])?)))
        .collect::<Result<Vec<_>, Refusal>>()?;
    let new = database.keyspace.change_sorted_set(key, |set| {
        scores
            .into_iter()
            .filter(|(member, score)| {
                let wanted = !only_if_there || set.score(member).is_some();
                wanted && set.insert(member, *score)
            })
            .count()
    })?;
    Ok(count(new))
}

fn score(text: &[u8]) -> Result<i64, Refusal> {
    integer(text)
        .ok()
        .filter(|score| score.unsigned_abs() <= LARGEST_SCORE)
        .ok_or(Refusal::NOT_A_FLOAT)
}

pub(super) fn zrem(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let gone = database.keyspace.change_sorted_set(&args[0], |set| {
        let gone = |member: &&Vec<u8>| set.remove(member);
        args[1..].iter().filter(gone).count()
    })?;
    Ok(count(gone))
}

pub(super) fn zcard(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let set = database.keyspace.sorted_set(&args[0])?;
    Ok(count(set.map_or(0, |set| set.len())))
}

pub(super) fn zrank(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let set = database.keyspace.sorted_set(&args[0])?;
    Ok(set
        .and_then(|set| set.rank(&args[1]))
        .map_or(Resp::Nil, count))
}

/// `ZRANGE key first last [WITHSCORES]`, by rank; a negative one counts from the end.
pub(super) fn zrange(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let with_scores = !args[3..].is_empty();
    if !args[3..]
        .iter()
        .all(|word| word.eq_ignore_ascii_case(b"withscores"))
    {
        return Err(Refusal::SYNTAX);
    }
    // Numbers are read before the key.
    range(&args[1], &args[2], 0)?;
    let Some(set) = database.keyspace.sorted_set(&args[0])? else {
        return Ok(Resp::Array(Vec::new()));
    };
    let (first, end) = range(&args[1], &args[2], set.len())?;
    let mut words = Vec::new();
    for (member, score) in set.in_order().take(end).skip(first) {
        words.push(Resp::Bulk(member.to_owned()));
        if with_scores {
            words.push(Resp::Bulk(score.to_string().into_bytes()));
        }
    }
    Ok(Resp::Array(words))
}

/// `ZMSCORE key member [member …]`: the score of each, nil for a missing one.
pub(super) fn zmscore(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let set = database.keyspace.sorted_set(&args[0])?;
    let scores = args[1..].iter().map(|member| {
        let score = set.and_then(|set| set.score(member));
        score.map_or(Resp::Nil, |score| {
            Resp::Bulk(score.to_string().into_bytes())
        })
    });
    Ok(Resp::Array(scores.collect()))
}

/// `ZRANGEBYSCORE key least most [LIMIT offset count]`: the members with a score from `least` to `most`. Each bound is a whole
/// number, with a `(` before it if it is excluded, or an infinity.
pub(super) fn zrangebyscore(database: &mut Database, args: &[Vec<u8>]) -> Outcome {
    let (mut skipped, mut taken) = (0, usize::MAX);
    let mut options = &args[3..];
    while let [word, offset, count, others @ ..] = options
        && word.eq_ignore_ascii_case(b"limit")
    {
        skipped = usize::try_from(integer(offset)?).unwrap_or(usize::MAX);
        // A negative count is no limit.
        taken = usize::try_from(integer(count)?).unwrap_or(usize::MAX);
        options = others;
    }
    if !options.is_empty() {
        return Err(Refusal::SYNTAX);
    }
    let (least, most) = (bound(&args[1], 1)?, bound(&args[2], -1)?);
    let set = database.keyspace.sorted_set(&args[0])?;
    let members = set.into_iter().flat_map(|set| set.in_order());
    let within = members.filter(|(_, score)| (least..=most).contains(score));
    let found = within.skip(skipped).take(taken);
    Ok(Resp::Array(
        found
            .map(|(member, _)| Resp::Bulk(member.to_owned()))
            .collect(),
    ))
}

/// One bound of a range of scores; for an excluded bound, the next score in direction `inwards`.
fn bound(text: &[u8], inwards: i64) -> Result<i64, Refusal> {
    const NO_FLOAT: Refusal = Refusal::of("ERR min or max is not a float");
    match text {
        b"-inf" => Ok(i64::MIN),
        b"+inf" | b"inf" => Ok(i64::MAX),
        [b'(', number @ ..] => Ok(score(number).map_err(|_| NO_FLOAT)? + inwards),
        number => score(number).map_err(|_| NO_FLOAT),
    }
}
