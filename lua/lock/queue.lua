-- lock/queue: reads how many claims wait for a name, and the place of one of them; dead waiters are included. Changes nothing.
--
-- KEYS[1] main     the value of one claim, or a marker, see shared/value
-- KEYS[2] queue    ZSET: <share>:<claim> -> its ticket
-- ARGV[1] request  echoed
-- ARGV[2] claim    empty: no claim
-- ARGV[3] share    of the claim
-- REPLY QUEUED length place  place: of the claim, 1 for the next, 0 if it does not wait
-- REPLY WRONG_KIND           the queue's key has another type
-- PUBLISH nothing

local value, fault = read_value(KEYS[1], true)
local length = is_marker(value) and redis.pcall('ZCARD', KEYS[2]) or 0
local refused = type(length) == 'table' and length
if refused and string.find(refused.err, 'WRONGTYPE', 1, true) then
  return { ARGV[1], 'WRONG_KIND' }
end
if fault or refused then
  return fault or refused
end
local rank = length > 0 and redis.call('ZRANK', KEYS[2], member_of('', ARGV[3], ARGV[2]))
return { ARGV[1], 'QUEUED', length, rank and rank + 1 or 0 }
