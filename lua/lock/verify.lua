-- lock/verify: checks whether the claim holds alone. Changes nothing.
--
-- KEYS[1] main      the value of one claim, or a marker, see shared/value
-- ARGV[1] request   echoed
-- ARGV[2] claim
-- REPLY HELD left   ms until the lease ends on the server; negative: it never ends
-- REPLY INFLATED    the name is inflated: run lock/verify_inflated instead
-- REPLY REVOKED     the claim holds but is revoked
-- REPLY GONE        expired, deleted, released, or replaced by another claim
-- PUBLISH nothing

local value, fault = read_value(KEYS[1], true)
if fault then
  return fault
end
if is_marker(value) then
  return { ARGV[1], 'INFLATED' }
end
local _, _, claim, _, flags = claim_of(value)
if claim ~= ARGV[2] or string.find(flags, 'c', 1, true) then
  return { ARGV[1], 'GONE' }
end
if string.find(flags, 'r', 1, true) then
  return { ARGV[1], 'REVOKED' }
end
return { ARGV[1], 'HELD', redis.call('PTTL', KEYS[1]) }
