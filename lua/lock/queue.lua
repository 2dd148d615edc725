-- lock/queue: how many wait for a name, and where among them a claim is. Changes nothing.
--
-- KEYS[1] queue    ZSET: <share>:<claim> -> its ticket
-- ARGV[1] request  echoed
-- ARGV[2] claim    empty: no claim
-- ARGV[3] share    of the claim
-- REPLY QUEUED length place  place: of the claim, 1 for the next, 0 if it has none
-- REPLY WRONG_KIND           the key holds another type
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
local rank = redis.call('ZRANK', KEYS[1], member_of('', ARGV[3], ARGV[2]))
return { ARGV[1], 'QUEUED', redis.call('ZCARD', KEYS[1]), rank and rank + 1 or 0 }
