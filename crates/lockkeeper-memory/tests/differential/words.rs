//! The words of random commands: keys, values, claims, numbers, right ones and odd ones.

use fastrand::Rng;

/// The channel on which both sides listen.
pub(crate) const CHANNEL: &str = "wake";
/// The channel for grants to the client of two of the claims, if the stem is that channel. Both sides listen there too.
pub(crate) const GRANTS: &str = "wake:67e55044-10b1-426f-9247-bb680e5fe0c8";

/// Ttls differ by more than two clocks can, so that a wrong one is noticed. Milliseconds.
pub(crate) const SHORTEST_TTL: i64 = 100_000;
pub(crate) const TTLS: &[&str] = &["100000", "200000", "300000"];
/// Values that are no number of milliseconds, at least not to Redis, or that have passed at once.
pub(crate) const ODD_TTLS: &[&str] = &[
    "0",
    "-1",
    "-100000",
    "",
    "x",
    "0100000",
    "+100000",
    " 100000",
    "1e5",
    "1.5",
    "9223372036854775807",
    "9223372036854775808",
];

/// Scripts and commands use the same keys, so that scripts find data that they did not write.
pub(crate) const KEYS: &[&str] = &[
    "main",
    "counter",
    "tombstone",
    "client",
    "holders",
    "queue",
    "state",
    "record",
    "claims",
    TIMEOUTS,
    "places",
    "timeout",
    ENDS,
    COUNTED,
];
/// Some are values that the scripts write, some only look like them.
pub(crate) const VALUES: &[&str] = &[
    "a",
    "b",
    "",
    "10",
    "1.5",
    "4503599627370497",
    "mutex x a 7",
    "once x a 4503599627370497p",
    "election x a 7",
    "election * 1 1 0 7 - a",
    "rwlock 1 b 7p",
    "fair x b 7r",
    "rwlock x a 7c",
    "fair * 1 1 0 7 -e a",
    "rwlock * 0 0 2 7 -ep -",
    "semaphore 1/2 a 7",
    "latch 2/2 a 0",
    "latch 0/2 b 0r",
    "semaphore * 0 0 2/3 0 - -",
    "semaphore * 0 0 2/ 0 - -",
    "semaphore 1/ a 7",
    "semaphore 1/2/3 a 7",
    "mutex * 9 9 9 x",
];
/// One of them: a claim that holds alone, and can be dropped.
pub(crate) const ALONE: &str = "mutex x a 7";
/// Values of claims, up to their tokens.
pub(crate) const BEGINNINGS: &[&str] = &[
    "mutex x a ",
    "fair x 67e55044-10b1-426f-9247-bb680e5fe0c8:7/9c1f4d03a2b75e68 ",
    "rwlock 1 b ",
    "semaphore 1/2 67e55044-10b1-426f-9247-bb680e5fe0c8:7/00c0ffee00c0ffee ",
];
/// Claims that no client of ours writes, and claims that one does: only the latter can be revoked.
pub(crate) const CLAIMS: &[&str] = &[
    "a",
    "b",
    "",
    "67e55044-10b1-426f-9247-bb680e5fe0c8:7/9c1f4d03a2b75e68",
    "67e55044-10b1-426f-9247-bb680e5fe0c8:7/00c0ffee00c0ffee",
];
pub(crate) const FIELDS: &[&str] = &["f", "g", "h", "seen", "grace", "o:a", "claim"];
/// A sorted set ordered by the clocks of the two sides: members with the same millisecond here may differ there, in another order.
pub(crate) const HOLDERS: &str = "holders";
/// Another one: the ends of the permits of a Redisson semaphore.
pub(crate) const ENDS: &str = "ends";
/// A sorted set whose empty member has a ttl as its score: a short one would end on one side first.
pub(crate) const COUNTED: &str = "counted";
/// A sorted set to whose scores a script adds.
pub(crate) const TIMEOUTS: &str = "timeouts";
pub(crate) const SCORES: &[&str] = &["1", "2", "-3", "9007199254740992"];
/// Patterns for keys, including some that nobody would write.
pub(crate) const PATTERNS: &[&str] = &[
    "*", "", "main", "*e*", "??ne?", "[a-g]*", "[^f]tate", "[g-f]*", "*[e", "\\main", "m**n", "\\",
    "q*u*e",
];
/// No token seen yet, and a token later than any clock's.
pub(crate) const FLOORS: &[&str] = &["0", "5000000000000000", "x"];
/// The first token that is drawn above the larger of these.
pub(crate) const BEHIND_THE_FLOOR: &str = "5000000000000001";

/// How a script runs the command in `ARGV` and what it returns.
pub(crate) const SHAPES: &[&str] = &[
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "local ok, reply = pcall(redis.call, unpack(ARGV))
     return { ok, type(reply), type(reply) == 'string' and reply or false }",
    "local reply = redis.pcall(unpack(ARGV))
     if type(reply) == 'table' then return { #reply, reply.ok or false, reply.err or false } end
     return { type(reply), tostring(reply) == 'false', reply }",
    "local words = {}
     for at, word in ipairs(ARGV) do words[at] = tonumber(word) or word end
     return { redis.pcall(unpack(words)), 'end' }",
];

pub(crate) fn ttl(random: &mut Rng) -> &'static str {
    let ttls = match random.u8(0..3) {
        0 => ODD_TTLS,
        _ => TTLS,
    };
    one(random, ttls)
}

pub(crate) fn score(random: &mut Rng) -> &'static str {
    match random.u8(0..4) {
        0 => one(random, &["", "x", "1x"]),
        _ => one(random, SCORES),
    }
}

pub(crate) fn bound(random: &mut Rng) -> &'static str {
    const BOUNDS: &[&str] = &[
        "-inf", "+inf", "0", "(0", "1", "(1", "(2", "2", "-3", "(x", "x",
    ];
    one(random, BOUNDS)
}

pub(crate) fn member(random: &mut Rng) -> &'static str {
    let members = match random.bool() {
        true => CLAIMS,
        false => FIELDS,
    };
    one(random, members)
}

/// The owner of a claim, or a number to find in a list.
pub(crate) fn owner(random: &mut Rng) -> &'static str {
    let owners = ["a", "b", "1", "67e55044-10b1-426f-9247-bb680e5fe0c8:7"];
    owners[random.usize(..owners.len())]
}

/// Every claim with every share and flag that a script can give it.
pub(crate) fn members() -> impl Iterator<Item = String> {
    let flags = ["", "r", "c"].into_iter();
    let shares = ["x", "1", "1/2", "2/2"];
    let shares = flags.flat_map(move |flag| shares.map(|share| format!("{flag}{share}")));
    shares.flat_map(|share| CLAIMS.iter().map(move |claim| format!("{share}:{claim}")))
}

pub(crate) fn index(random: &mut Rng) -> &'static str {
    const INDEXES: &[&str] = &["0", "1", "2", "-1", "-2", "-9", "100", "x", "1.5", "-1000"];
    one(random, INDEXES)
}

/// Never negative, because servers differ there: Redis returns nothing, Valkey 9.1 something.
pub(crate) fn offset(random: &mut Rng) -> &'static str {
    index(random).trim_start_matches('-')
}

pub(crate) fn one(random: &mut Rng, words: &[&'static str]) -> &'static str {
    words[random.usize(..words.len())]
}

pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
