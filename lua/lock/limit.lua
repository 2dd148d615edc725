-- lock/limit: reads how many parts a name has and how many are taken. With a limit, it first sets the number of parts: no holder
-- loses its parts, and the first waiters that now fit are granted.
--
-- KEYS[1] main         the value of one claim, or a marker, see shared/value
-- KEYS[2] counter      the last token drawn by any name of the slot
-- KEYS[3] holders      ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[4] queue        ZSET: <share>:<claim> -> its ticket
-- KEYS[5] state        HASH: further data of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request      echoed
-- ARGV[2] limit        the new limit; 0: no change
-- ARGV[3] floor        the largest token the caller has seen
-- ARGV[4] kind
-- ARGV[5] waiter_ttl   how long a waiter stays alive without a heartbeat, ms
-- ARGV[6] channel      the prefix of the grant channels
-- REPLY LIMIT limit taken waiting  there are `limit` parts, `taken` of them are taken, and `waiting` claims wait
-- REPLY FREE                       nobody holds and nobody waits: the next claim sets the limit
-- REPLY MORE                       one run does not finish the work: run it again at once
-- REPLY WRONG_KIND                 the name holds data of another kind, or one of its keys has another type
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter that is granted

local name = { main = KEYS[1], counter = KEYS[2], holders = KEYS[3], queue = KEYS[4], state = KEYS[5] }
name.floor, name.kind, name.waiter_ttl, name.channel = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local readable, fault = read_name(name, true)
if fault then
  return fault
end
if not readable or name.found and name.found ~= name.kind then
  return { ARGV[1], 'WRONG_KIND' }
end
if ARGV[2] ~= '0' and (is_taken(name) or name.waits) then
  if name.alone then
    inflate(name)
  end
  name.limit, name.changed = tonumber(ARGV[2]), true
end
advance(name)
local waiting, stands = name.waits and redis.call('ZCARD', name.queue) or 0, is_taken(name) or name.waits
settle(name)
if name.more then
  return { ARGV[1], 'MORE' }
end
if stands then
  return { ARGV[1], 'LIMIT', name.limit or 0, name.parts, waiting }
end
return { ARGV[1], 'FREE' }
