-- lock/drop: releases a claim that holds alone, if nobody polls the name: a compare-and-delete. It is one command, which the Redis store sends bare.
--
-- KEYS[1] main     the value of one claim, see shared/value
-- ARGV[1] request  echoed
-- ARGV[2] value    of the claim, without flags
-- REPLY DROPPED    nobody was told
-- REPLY INFLATED   another value stands there, or none: run lock/release
-- PUBLISH nothing

local dropped = redis.pcall('LREM', KEYS[1], '1', ARGV[2])
if dropped == 1 then
  return ARGV[1] .. ' DROPPED'
end
-- A key of another type has another value. Any other error is no answer.
local fault = type(dropped) == 'table' and not string.find(dropped.err, 'WRONGTYPE', 1, true) and dropped
if fault then
  return fault
end
return ARGV[1] .. ' INFLATED'
