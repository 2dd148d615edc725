-- lock/release_thin: the claim goes, every acquire of it having been answered, if nobody else has come to its name: names no key
-- but main. Wakes those who poll the name.
--
-- KEYS[1] main      the value of one claim, or a marker, see shared/value
-- ARGV[1] request   echoed
-- ARGV[2] claim
-- ARGV[3] channel   where those who poll the name listen
-- ARGV[4] cooldown  for how long nobody else may hold, ms
-- REPLY RELEASED told holds  told: 1 unless the server refused a wake; holds: how many claims the owner still has: none
-- REPLY COOLDOWN told left   the claim is gone, and the name is free in `left` ms
-- REPLY INFLATED             the name is inflated: lock/release is to be run instead
-- REPLY NOT_HELD holds       nothing was there to release
-- PUBLISH channel: free, or kept, if somebody polls

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
