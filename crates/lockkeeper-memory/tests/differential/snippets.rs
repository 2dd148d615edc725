//! Small scripts, each for a point in which the embedded Lua and Redis's could differ. `KEYS[1]` is `k`, `ARGV[1]` is `arg`.
//!
//! Left out: `error({ x = 1 })`, a table without `err`, which crashes a server of version 7.0.

use crate::compare::Version;

/// Whether a version is known to answer this differently, beyond the wording of an error. No script of ours does any of this.
pub(crate) fn is_different(version: &Version, snippet: &str) -> bool {
    let known = if version.is_the_model() {
        &[][..]
    } else if version.fails_with_text() {
        IN_6_2
    } else {
        SINCE_7_2
    };
    known.contains(&snippet)
}

/// The dash is part of the text; a table is no error and causes one in the error handler; `print` exists.
const IN_6_2: &[&str] = &[
    "return redis.error_reply('-CODE text')",
    "error({ err = 'BAD thing' })",
    "return print",
];

/// `os` exists, with nothing but its clock.
const SINCE_7_2: &[&str] = &["return os"];

pub(crate) const SNIPPETS: &[&str] = &[
    // values
    "return",
    "return false",
    "return true",
    "return 'text'",
    "return function() end",
    "return { 1, nil, 3 }",
    "return { 1, false, 3.99, -3.99, true, { ok = 'fine' }, { err = 'CODE text' }, 'x' }",
    "return { 1, 2, x = 3 }",
    "return { {}, { {} }, { false } }",
    "return { 1e300, -1e300, 0/0, 1/0, -1/0, 2^53, -(2^53), 2^63, -(2^63), -0.9 }",
    "return { ok = 'fine', err = 'CODE text' }",
    "return { err = 'raw' }",
    "return { err = 1 }",
    "return { ok = 1 }",
    "return { KEYS[1], ARGV[1], #KEYS, #ARGV, KEYS[2] }",
    "return redis.status_reply('fine')",
    "return redis.status_reply(1)",
    "return redis.status_reply()",
    "return redis.error_reply('word')",
    "return redis.error_reply('CODE text')",
    "return redis.error_reply('-CODE text')",
    "return redis.error_reply('-word')",
    "return redis.error_reply('')",
    "return redis.error_reply(1)",
    "return redis.error_reply()",
    "return redis.error_reply('a', 'b')",
    "return redis.error_reply('one two').err",
    // replies of commands
    "return tostring(redis.call('GET', 'none'))",
    "return redis.call('SET', 'k', 'v')",
    "return redis.call('SET', 'k', 'v').ok",
    "return redis.call('SET', 'k', 'v', 'XX')",
    "return { redis.call('SET', 'k', 10), redis.call('GET', 'k') }",
    "return { redis.call('SET', 'k', 1.5), redis.call('GET', 'k') }",
    "return { redis.call('SET', 'k', -7), redis.call('GET', 'k') }",
    "return { redis.call('SET', 'k', 2^53), redis.call('GET', 'k') }",
    "return { redis.call('SET', 'k', 'a\\0b'), #redis.call('GET', 'k'), redis.call('GET', 'k') }",
    "return type(redis.call('DEL', 'k'))",
    "local t = redis.call('TIME') return { #t, type(t[1]), t[1], #t[2] <= 6 }",
    "return #redis.call('HGETALL', 'none')",
    "redis.call('HSET', 'h', 'f', 'v') redis.call('HDEL', 'h', 'f') return redis.call('TYPE', 'h')",
    "return { redis.call('HINCRBY', 'h', 'f', 2), redis.call('HINCRBY', 'h', 'f', -3), redis.call('HGET', 'h', 'f') }",
    "redis.call('HSET', 'h', 'f', '1x') return redis.call('HINCRBY', 'h', 'f', 1)",
    "redis.call('HSET', 'h', 'f', '1') return redis.call('HINCRBY', 'h', 'f', 'x')",
    "redis.call('HSET', 'h', 'f', '9223372036854775807') return redis.call('HINCRBY', 'h', 'f', 1)",
    "redis.call('SET', 'k', 'v') return redis.call('HINCRBY', 'k', 'f', 1)",
    "redis.call('HSET', 'h', 'f', 'v') return { redis.call('HLEN', 'h'), redis.call('HKEYS', 'h'), redis.call('HVALS', 'h') }",
    "return { redis.call('HLEN', 'none'), redis.call('HKEYS', 'none'), redis.call('HVALS', 'none') }",
    // refusals
    "return redis.call('NOPE')",
    "return redis.pcall('NOPE')",
    "return redis.call('GET')",
    "return redis.pcall('GET')",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call({})",
    "return redis.call(nil)",
    "return redis.call(1)",
    "return redis.call('SET', 'k', true)",
    "return redis.pcall('SET', 'k', {})",
    "redis.call('HSET', 'h', 'a', '1', 'b')",
    "redis.call('HSET', 'h', 'f', 'v') return redis.call('GET', 'h')",
    "redis.call('HSET', 'h', 'f', 'v') return redis.pcall('GET', 'h')",
    "redis.call('HSET', 'h', 'f', 'v') return redis.pcall('GET', 'h').err",
    "redis.call('HSET', 'h', 'f', 'v') return { pcall(redis.call, 'GET', 'h') }",
    "redis.call('HSET', 'h', 'f', 'v') return { select(2, pcall(redis.call, 'GET', 'h')) }",
    "local ok, e = pcall(redis.call, 'NOPE') error(e)",
    "local ok, e = pcall(redis.call, 'NOPE') error(e, 0)",
    "local function f()\n  redis.call('NOPE')\nend\nf()",
    // errors
    "error('boom')",
    "error('boom', 0)",
    "error('boom', 2)",
    "error({ err = 'BAD thing' })",
    "error({ err = 'single' })",
    "error()",
    "error(12)",
    "local x\nreturn x.y",
    "return KEYS[2].a",
    "return 'a' < 1",
    "return ARGV[1] + 1",
    "return nil .. 'a'",
    "assert(false)",
    "assert(false, 'told')",
    "assert(nil, 'told')",
    "return { pcall(error, 'x') }",
    "return { select(2, pcall(error, { err = 'CODE text' })) }",
    "return { select('#', pcall(function() return 1, nil, nil end)) }",
    "return { select('#', pcall(error)) }",
    "retur",
    "return 1 +",
    "local x <const> = 1",
    "goto done",
    // globals
    "return foo",
    "return foo.bar",
    "return select(2, pcall(function() return foo end))",
    "foo = 1",
    "function foo() end",
    "KEYS = {}",
    "rawset(_G, 'x', 1)",
    "setmetatable(_G, {})",
    "string.x = 1",
    "string.format = 1",
    "math.x = 1",
    "table.x = 1",
    "redis.x = 1",
    "redis.call = 1",
    "rawset(string, 'x', 1)",
    "return { type(_G), _G.KEYS[1], _VERSION, type(_G.redis.call), _G._G == _G }",
    "return print",
    "return os",
    "return io",
    "return require",
    "return debug",
    "return package",
    "return dofile",
    "return loadfile",
    // the library
    "return { string.format('%.0f', 1e17), string.format('%.0f', 2^53), tostring(1e15), tostring(0.1), 2^53 .. '' }",
    "return { ('x'):upper(), #'abc', ('a,b'):find(',', 1, true), ('abc'):sub(2), (('aa'):gsub('a', 'b')) }",
    "return { tonumber('10'), tonumber('0x10'), tonumber(' 5 '), tonumber('') == nil, tonumber('1e3'), tonumber('x') == nil }",
    "return { math.floor(1.5), math.ceil(1.2), math.max(1, 2), math.min(1, 2), math.abs(-1), math.huge > 1, 7 % 3, -7 % 3 }",
    "local t = { 3, 1, 2 } table.sort(t) table.insert(t, 9) return { table.concat(t, ','), table.remove(t), #t, unpack(t) }",
    "local t = setmetatable({}, { __index = function(_, name) return name end }) return { t.a, rawget(t, 'a') == nil }",
    "local s = '' for at, word in ipairs({ 'a', 'b', nil, 'c' }) do s = s .. at .. word end return s",
    "return { select('#', nil, nil), select(2, 'a', 'b'), next({}) == nil, type(next), rawequal(KEYS, KEYS) }",
];
