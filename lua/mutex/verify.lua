-- mutex/verify: asks whether the claim holds. Changes nothing.
--
-- KEYS[1] main     the holder's claim, a string
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- REPLY HELD left  ms until the lease ends on the server
-- REPLY REVOKED    the claim holds and is revoked
-- REPLY GONE       expired, deleted, or somebody else's
-- PUBLISH nothing

local holder, fault = read_claim(KEYS[1], AS_A_WRITE)
if fault then
  return fault
end
local claim, state = claim_in(holder)
if claim ~= ARGV[2] or state == 'kept' then
  return { ARGV[1], 'GONE' }
end
if state == 'revoked' then
  return { ARGV[1], 'REVOKED' }
end
return { ARGV[1], 'HELD', redis.call('PTTL', KEYS[1]) }
