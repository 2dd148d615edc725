-- lock/drop: releases a claim that holds alone, if nobody polls the name: a compare-and-delete.
--
-- KEYS[1] main     the value of one claim, see shared/value
-- ARGV[1] request  echoed
-- ARGV[2] value    of the claim, without flags
-- REPLY DROPPED    nobody was told
-- REPLY INFLATED   another value stands there, or none: run lock/release
-- PUBLISH nothing

-- A read that counts as a write, see shared/value.
local value, fault = redis.pcall('GETEX', KEYS[1])
if value ~= ARGV[2] then
  -- A key of another type has another value. Any other error is no answer.
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    fault = value
    return fault
  end
  return ARGV[1] .. ' INFLATED'
end
redis.call('DEL', KEYS[1])
return ARGV[1] .. ' DROPPED'
