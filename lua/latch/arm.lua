-- latch/arm: arms the latch of a name, which opens when that many ids have counted it down. One that is armed or open stays as it is,
-- whoever armed it: run again this changes nothing.
--
-- KEYS[1] main     the latch, see shared/latch
-- KEYS[2] counted  ZSET: the ids that have counted, and the empty one, whose score is the ttl
-- ARGV[1] request  echoed
-- ARGV[2] claim    of whoever arms it, for people
-- ARGV[3] n        how many counts open it; 0: it is open
-- ARGV[4] ttl      for how long it lives after the last count, and is known to be open, ms
-- REPLY COUNTS left n own  it is armed or open: so many of so many counts are to come; own: 1 if this claim has armed it
-- REPLY WRONG_KIND         the name holds something else
-- PUBLISH nothing

local latch, fault = read_latch(KEYS[1], KEYS[2], 'GET')
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
-- First what a full server refuses. Then, whatever lies in the other key has counted for another latch.
write_latch(KEYS[1], n, n, ARGV[2], ttl)
redis.call('DEL', KEYS[2])
if n > 0 then
  redis.call('ZADD', KEYS[2], ARGV[4], '')
  keep_counted(KEYS[2], ttl)
end
return { ARGV[1], 'COUNTS', n, n, 1 }
