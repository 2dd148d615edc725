-- name/waiters: a page of those who wait for a name in a queue, in order, those counted who have died and were not dropped
-- yet. Changes nothing.
--
-- KEYS[1] queue    ZSET: <share>:<claim> -> its ticket
-- ARGV[1] request  echoed
-- ARGV[2] first    the place where the page begins, 0 for the next to hold
-- ARGV[3] last     the place where it ends
-- REPLY WAITERS claims  in order
-- REPLY WRONG_KIND      the key holds another type
-- PUBLISH nothing

-- A write that changes nothing: a replica refuses it instead of answering from what it has.
local removed = redis.pcall('ZREM', KEYS[1], 'lockkeeper.no-member')
local fault = type(removed) == 'table' and removed
if fault and string.find(fault.err, 'WRONGTYPE', 1, true) then
  return { ARGV[1], 'WRONG_KIND' }
end
if fault then
  return fault
end
local claims = redis.call('ZRANGE', KEYS[1], ARGV[2], ARGV[3])
for i, member in ipairs(claims) do
  claims[i] = string.match(member, '^[x%d]+:(.*)$') or member
end
return { ARGV[1], 'WAITERS', claims }
