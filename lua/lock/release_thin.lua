-- lock/release_thin: releases a claim that holds alone and whose acquires were all answered, and wakes the name's pollers. Its only
-- key is the main key.
--
-- KEYS[1] main      the value of one claim, or a marker, see shared/value
-- ARGV[1] request   echoed
-- ARGV[2] claim
-- ARGV[3] channel   on which pollers of the name listen
-- ARGV[4] cooldown  how long the name stays unavailable, ms
-- REPLY RELEASED told holds  told: 0 if the server refused the wake, otherwise 1; holds: claims the owner still has: 0
-- REPLY COOLDOWN told left   the claim is released, and the name is free in `left` ms
-- REPLY INFLATED             the name is inflated: run lock/release instead
-- REPLY NOT_HELD holds       there was nothing to release
-- PUBLISH channel: free, or kept, if a client polls the name

local value, fault = read_value(KEYS[1], AS_A_WRITE)
if fault then
  return fault
end
if is_marker(value) then
  return { ARGV[1], 'INFLATED' }
end
local stood, left, told = leave_alone(KEYS[1], value, ARGV[2], ARGV[4], ARGV[3])
if not stood then
  return { ARGV[1], 'NOT_HELD', 0 }
end
if left ~= 0 then
  return { ARGV[1], 'COOLDOWN', told, left }
end
return { ARGV[1], 'RELEASED', told, 0 }
