//! The random steps: commands, from a client or inside a script, and the shipped scripts.

use std::fmt;

use fastrand::Rng;
use lockkeeper_core::store::Value;
use lockkeeper_lua::Script;

use crate::words::{
    ALONE, BEGINNINGS, BEHIND_THE_FLOOR, CHANNEL, CLAIMS, COUNTED, ENDS, FIELDS, FLOORS, HOLDERS,
    KEYS, PATTERNS, SCORES, SHAPES, TIMEOUTS, TTLS, VALUES, bound, index, member, members, offset,
    one, owned, owner, score, ttl,
};
use crate::{Reply, Side};

/// One thing that is done to both sides.
pub(crate) enum Step {
    FlushScripts,
    Execute {
        words: Vec<String>,
        /// A server promises no order for the fields of a hash.
        unordered: bool,
    },
}

impl Step {
    /// A random step. In a sequence for one kind, mostly a script of that kind; otherwise queues would be rare and short.
    pub(crate) fn random(random: &mut Rng, kind: Option<&str>) -> Self {
        if let Some(kind) = kind
            && random.u8(0..10) > 0
        {
            let (words, unordered) = shipped(random, kind);
            return Self::execute(words, unordered);
        }
        match random.u8(0..100) {
            0..2 => Self::FlushScripts,
            2 => Self::execute(many_dead(random), false),
            3..50 => {
                let (words, unordered) = shipped(random, "");
                Self::execute(words, unordered)
            }
            50..75 => {
                let words = command(random);
                let unordered = ["HGETALL", "SCAN"].contains(&&*words[0]);
                Self::execute(words, unordered)
            }
            _ => {
                let words = command(random);
                let unordered = ["HGETALL", "SCAN"].contains(&&*words[0]);
                let mut script = vec!["EVAL", one(random, SHAPES), "0"];
                script.extend(words.iter().map(String::as_str));
                Self::execute(owned(&script), unordered)
            }
        }
    }

    /// What a sequence leaves behind: the type, value and remaining time of every key.
    pub(crate) fn looks() -> impl Iterator<Item = Self> {
        let commands = ["TYPE", "PTTL", "GET", "HGETALL", "LRANGE", "ZRANGE"];
        commands.into_iter().flat_map(|command| {
            KEYS.iter().map(move |key| {
                let mut words = owned(&[command, key]);
                match (command, *key) {
                    ("ZRANGE", HOLDERS | ENDS) => {
                        words[0] = "ZMSCORE".to_owned();
                        words.extend(FIELDS.iter().map(|&member| member.to_owned()));
                        words.extend(CLAIMS.iter().map(|&member| member.to_owned()));
                        words.extend(members());
                    }
                    ("LRANGE", _) => words.extend(owned(&["0", "-1"])),
                    ("ZRANGE", _) => words.extend(owned(&["0", "-1", "WITHSCORES"])),
                    _ => {}
                }
                Self::execute(words, command == "HGETALL")
            })
        })
    }

    const fn execute(words: Vec<String>, unordered: bool) -> Self {
        Self::Execute { words, unordered }
    }

    /// Whether it runs a script, shipped or not.
    pub(crate) fn is_script(&self) -> bool {
        let Self::Execute { words, .. } = self else {
            return false;
        };
        words[0].starts_with("EVAL")
    }

    /// The shipped script that this step runs, if it does.
    pub(crate) fn script(&self) -> Option<&'static Script> {
        let Self::Execute { words, .. } = self else {
            return None;
        };
        let text = words.get(1)?;
        let is_it = |script: &&&'static Script| script.source == text || script.sha1 == text;
        lockkeeper_lua::ALL.iter().find(is_it).copied()
    }

    pub(crate) fn run(&self, side: &mut dyn Side) -> Reply {
        match self {
            Self::FlushScripts => {
                side.flush_scripts();
                Ok(Value::Nil)
            }
            Self::Execute { words, unordered } => {
                let mut reply = side.execute(words);
                if *unordered {
                    reply = reply.map(sorted);
                }
                reply
            }
        }
    }
}

/// On one line, long scripts cut.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FlushScripts => f.write_str("(flush scripts)"),
            Self::Execute { words, .. } => {
                let short = |word: &String| -> String { word.chars().take(60).collect() };
                let words: Vec<String> = words.iter().map(short).collect();
                write!(f, "{words:?}")
            }
        }
    }
}

/// Sorts the items, including those of nested lists.
fn sorted(value: Value) -> Value {
    let Value::List(items) = value else {
        return value;
    };
    let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
    items.sort_by_cached_key(without_clocks);
    Value::List(items)
}

/// A key that orders two items alike on both sides, whatever their clocks show and however much of their leases is left: the text
/// without its long numbers comes first.
fn without_clocks(item: &Value) -> (Vec<String>, String) {
    let text = match item {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    };
    let parts = text.split(|character: char| !character.is_ascii_alphanumeric());
    let is_clock = |part: &str| part.len() > 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = parts.filter(|part| !is_clock(part)).map(str::to_owned);
    (parts.collect(), text)
}

/// A shipped script as text or SHA-1, with its keys in place, and whether its reply is in the order of a hash. Its name begins with
/// `kind`; for an election, the scripts of all locks count too.
fn shipped(random: &mut Rng, kind: &str) -> (Vec<String>, bool) {
    let scripts = lockkeeper_lua::ALL
        .iter()
        .filter(|script| {
            let leads = kind == "election/" && script.name.starts_with("lock/");
            script.name.starts_with(kind) || leads
        })
        // A server's description of itself differs from every other's.
        .filter(|script| **script != &lockkeeper_lua::server::DESCRIBE);
    let scripts: Vec<_> = scripts.collect();
    let script = scripts[random.usize(..scripts.len())];
    // A batch of several items on one key: the next item must see what the previous one did.
    let items = if script.batch { random.usize(1..4) } else { 1 };
    let mut words = match random.bool() {
        true => vec!["EVAL", script.source],
        false => vec!["EVALSHA", script.sha1],
    };
    // Items about the same name as the one before leave out the keys, and what stands once.
    let short = !script.once.is_empty() && random.bool();
    let named = if short { 1 } else { items };
    let number = (named * script.keys.len()).to_string();
    words.push(&number);
    for _ in 0..named {
        words.extend(script.keys);
    }
    let (request, args) = (&script.args[..1], &script.args[1..]);
    let items = (0..items).flat_map(|item| args.iter().map(move |arg| (item, arg)));
    for (item, arg) in request.iter().map(|arg| (0, arg)).chain(items) {
        words.push(match *arg {
            arg if item > 0 && short && script.once.contains(&arg) => "",
            "request" => "17",
            "claim" => one(random, CLAIMS),
            "ttl" | "waiter_ttl" | "wait" => one(random, TTLS),
            "tombstone_ttl" | "late_ttl" => one(random, &["0", "100000"]),
            // The two sides have different uptimes: with zero, neither is quarantined.
            "longest" => "0",
            "queue_limit" => one(random, &["-1", "-1", "0", "1", "1", "1", "poll"]),
            "floor" | "proposal" => one(random, FLOORS),
            "token" => one(random, &["0", "0", "4503599627370497", BEHIND_THE_FLOOR]),
            "cooldown" => one(random, &["0", "0", "150000"]),
            "label" => one(random, VALUES),
            "kind" if script.name.starts_with("once/") => one(random, &["once", "once", "mutex"]),
            "kind" if kind == "election/" => {
                one(random, &["election", "election", "election", "fair"])
            }
            "kind" => one(
                random,
                &[
                    "election",
                    "mutex",
                    "fair",
                    "rwlock",
                    "rwlock",
                    "rwlock",
                    "semaphore",
                    "once",
                ],
            ),
            "share" | "old_share" => {
                one(random, &["x", "x", "x", "1", "1", "1", "1/2", "2/2", "3/2"])
            }
            "polls" | "polled" | "tries" | "reenters" | "fenced" | "leased" => {
                one(random, &["0", "1"])
            }
            "n" => one(random, &["0", "1", "2", "2", "2", "3"]),
            "permits" => one(random, &["1", "1", "2", "3"]),
            "id" => one(random, &["f", "g", "h"]),
            "limit" => one(random, &["0", "0", "1", "2", "3"]),
            "old" | "next" => one(random, CLAIMS),
            "term" => one(random, &["7", BEHIND_THE_FLOOR, BEHIND_THE_FLOOR]),
            "number" => one(random, &["1", "2", "10"]),
            "forget" => one(random, &["0", "4503599627370497", BEHIND_THE_FLOOR]),
            "keep_for" => one(random, TTLS),
            "form" => one(random, &["text", "hex", "failed"]),
            "mode" => one(random, &["read", "write"]),
            "value" if script.name == "lock/take" => one(random, BEGINNINGS),
            "value" if script.name == "lock/drop" => ALONE,
            "fingerprint" | "value" => one(random, VALUES),
            "first" | "last" => index(random),
            "cursor" => one(random, &["0", "0", "0", "x"]),
            "pattern" => one(random, PATTERNS),
            // All keys on one page: the pages of the two sides end at different keys.
            "count" => one(random, &["1000", "1000", "0", "x"]),
            "channel" => one(random, &[CHANNEL, CHANNEL, "elsewhere"]),
            // Every right is granted here.
            "main" => one(random, KEYS),
            "wake" | "grant" | "client" => CHANNEL,
            other => panic!("{}: what is {other}?", script.name),
        });
    }
    let unordered = [
        &lockkeeper_lua::name::INSPECT,
        &lockkeeper_lua::redisson::RWLOCK_INSPECT,
        &lockkeeper_lua::redisson::PERMITS_INSPECT,
        &lockkeeper_lua::server::SCAN,
    ];
    (owned(&words), unordered.contains(script))
}

/// A command, sometimes with a word too many or too few.
fn command(random: &mut Rng) -> Vec<String> {
    let (mut key, mut value, field) = (one(random, KEYS), one(random, VALUES), one(random, FIELDS));
    if random.u8(..4) == 0 {
        (key, value) = ("main", ALONE);
    }
    let in_order = if [HOLDERS, ENDS].contains(&key) {
        "queue"
    } else {
        key
    };
    let scored = match key {
        COUNTED | TIMEOUTS => "queue",
        key => key,
    };
    let mut words = match random.u8(0..32) {
        0 => vec![one(random, &["GET", "GETEX"]), key],
        1..3 => set(random, key, value),
        3 if key == "main" => vec!["RPUSH", key, value],
        3 => set(random, key, value),
        4 => vec![one(random, &["DEL", "UNLINK"]), key, one(random, KEYS)],
        5 => vec!["EXISTS", key, one(random, KEYS), key],
        6 => vec!["TYPE", key],
        7 => vec!["PTTL", key],
        8 => match random.bool() {
            true => vec!["PEXPIRE", key, ttl(random)],
            false => vec!["INCRBY", key, one(random, SCORES)],
        },
        9 => vec!["PUBLISH", one(random, &[CHANNEL, "elsewhere"]), value],
        10 => vec!["HSET", key, field, value, one(random, FIELDS), value],
        11 => vec!["HGET", key, field],
        12 => vec!["HGETALL", key],
        13 => vec!["HMGET", key, field, one(random, FIELDS)],
        14 => vec!["PUBSUB", "NUMSUB", one(random, &[CHANNEL, "elsewhere"])],
        15 => match random.u8(0..3) {
            0 => vec!["ZADD", scored, "xx", score(random), member(random)],
            _ => vec!["ZADD", scored, score(random), member(random)],
        },
        16 => vec![
            "ZADD",
            scored,
            score(random),
            member(random),
            score(random),
            member(random),
        ],
        17 => vec!["ZREM", key, member(random), member(random)],
        18 => vec![
            "ZRANGE",
            in_order,
            index(random),
            index(random),
            "withscores",
        ],
        19 => vec!["ZRANGE", in_order, index(random), index(random)],
        20 => vec!["ZRANK", in_order, member(random)],
        21 => vec!["ZCARD", key],
        22 => vec!["ZMSCORE", key, member(random), member(random)],
        23 => vec!["ZRANGEBYSCORE", in_order, bound(random), bound(random)],
        24 => vec![
            "ZRANGEBYSCORE",
            in_order,
            bound(random),
            bound(random),
            "limit",
            offset(random),
            index(random),
        ],
        26 => vec!["RPUSH", key, owner(random), owner(random)],
        27 => match random.bool() {
            true => vec![one(random, &["LPOP", "LLEN"]), key],
            false => vec!["LSET", key, index(random), value],
        },
        28 => vec!["LRANGE", key, index(random), index(random)],
        29 => vec!["LREM", key, index(random), owner(random)],
        30 => vec!["LPOS", key, owner(random)],
        31 => vec!["LINDEX", key, index(random)],
        25 => vec!["SCAN", "0", "MATCH", one(random, PATTERNS), "count", "1000"],
        _ => vec![
            one(random, &["HDEL", "hdel", "NOPE"]),
            key,
            field,
            one(random, FIELDS),
        ],
    };
    match random.u8(0..20) {
        0 => words.push("ODD"),
        1 if words.len() > 1 => words.truncate(words.len() - 1),
        _ => {}
    }
    owned(&words)
}

fn set<'a>(random: &mut Rng, key: &'a str, value: &'a str) -> Vec<&'a str> {
    let mut words = vec!["SET", key, value];
    for _ in 0..random.u8(0..3) {
        match random.u8(0..6) {
            0 => words.push("NX"),
            1 => words.push("xx"),
            2 => words.push("KEEPTTL"),
            _ => words.extend(["PX", ttl(random)]),
        }
    }
    words
}

/// A name with more dead waiters than one run of a script drops.
fn many_dead(random: &mut Rng) -> Vec<String> {
    const SCRIPT: &str = "redis.call('DEL', KEYS[1], KEYS[2])
        redis.call('RPUSH', KEYS[1], 'fair * 0 0 0 0 -e -')
        redis.call('PEXPIRE', KEYS[1], 300000)
        for i = 1, ARGV[1] do redis.call('ZADD', KEYS[2], i, 'x:dead ' .. i) end
        return redis.call('PEXPIRE', KEYS[2], 300000)";
    let number = random.usize(200..600).to_string();
    owned(&["EVAL", SCRIPT, "2", "main", "queue", &number])
}
