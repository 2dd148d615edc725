-- latch/arm: arms the latch of a name, which opens after n ids have counted it down. A latch that is armed or open stays as it is,
-- no matter which claim armed it, so a repeat changes nothing.
--
-- KEYS[1] main     the latch, see shared/latch
-- KEYS[2] counted  ZSET: the ids that have counted, and an empty id, whose score is the ttl
-- ARGV[1] request  echoed
-- ARGV[2] claim    the claim that arms it, shown to people
-- ARGV[3] n        how many counts open it; 0: it is open at once
-- ARGV[4] ttl      how long it lives after the last count, and how long it is known to be open, ms
-- REPLY COUNTS left n own  the latch is armed or open: `left` of `n` counts are missing; own: 1 if this claim has armed it
-- REPLY WRONG_KIND         the name holds something else
-- PUBLISH nothing

local latch, fault = read_latch(KEYS[1], KEYS[2])
if fault then
  return fault
end
if not latch then
  return { ARGV[1], 'WRONG_KIND' }
end
if latch.state == 'armed' or latch.state == 'open' then
  return { ARGV[1], 'COUNTS', latch.left, latch.n, latch.claim == ARGV[2] and 1 or 0 }
end
local n, ttl = tonumber(ARGV[3]), tonumber(ARGV[4])
-- The write that a full server may refuse comes first. Then the other key is deleted, whose ids counted down an earlier latch.
write_latch(KEYS[1], latch.stands, n, n, ARGV[2], ttl)
redis.call('DEL', KEYS[2])
if n > 0 then
  redis.call('ZADD', KEYS[2], ARGV[4], '')
  keep_counted(KEYS[2], ttl)
end
return { ARGV[1], 'COUNTS', n, n, 1 }
