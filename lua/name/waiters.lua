-- name/waiters: reads a part of the queue of a name, in order, including dead waiters that were not dropped yet. Changes nothing.
--
-- KEYS[1] main     the value of one claim, or a marker, see shared/value
-- KEYS[2] queue    ZSET: <share>:<claim> -> its ticket
-- ARGV[1] request  echoed
-- ARGV[2] first    the index of the first waiter to return, 0 for the next to be granted
-- ARGV[3] last     the index of the last one
-- REPLY WAITERS claims  in order
-- REPLY WRONG_KIND      the queue's key has another type
-- PUBLISH nothing

local value, fault = read_value(KEYS[1], true)
local claims = is_marker(value) and redis.pcall('ZRANGE', KEYS[2], ARGV[2], ARGV[3]) or {}
if string.find(claims.err or '', 'WRONGTYPE', 1, true) then
  return { ARGV[1], 'WRONG_KIND' }
end
if fault or claims.err then
  return fault or claims
end
for i, member in ipairs(claims) do
  claims[i] = string.match(member, '^[x%d/]+:(.*)$') or member
end
return { ARGV[1], 'WAITERS', claims }
