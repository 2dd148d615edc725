-- lock/limit: how many parts of a name there are, and how many of them are taken; or says that there are so many from now on. Nobody loses
-- what he holds, and those in front of the queue who fit now come in.
--
-- KEYS[1] main         the value of one claim, or a marker, see shared/value
-- KEYS[2] counter      the last token drawn by any name of the slot
-- KEYS[3] holders      ZSET: <flag><share>:<claim> -> server ms of the end of its lease
-- KEYS[4] queue        ZSET: <share>:<claim> -> its ticket
-- KEYS[5] state        HASH: what else is known of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request      echoed
-- ARGV[2] limit        from now on; 0: as it is
-- ARGV[3] floor        the largest token the caller has seen
-- ARGV[4] kind
-- ARGV[5] waiter_ttl   for how long a waiter is alive without a word, ms
-- ARGV[6] channel      what the channels begin with on which clients are told of grants
-- REPLY LIMIT limit taken waiting  so many parts there are, so many are taken, and so many claims wait for some
-- REPLY FREE                       nobody holds and nobody waits: the limit is that of whoever comes next
-- REPLY MORE                       the run has done as much as it may: to be run again at once
-- REPLY WRONG_KIND                 the name holds another kind's data, or one of its keys another type
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter whose turn it is

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
