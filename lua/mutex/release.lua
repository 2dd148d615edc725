-- mutex/release: the claim goes, every acquire of it having been answered. Compare and delete, then wake the waiters; or keep
-- the name from others for a while.
--
-- KEYS[1] main      the holder's claim, a string
-- ARGV[1] request   echoed
-- ARGV[2] claim
-- ARGV[3] channel   where waiters of the name listen
-- ARGV[4] cooldown  for how long nobody else may hold, ms
-- REPLY RELEASED told holds  told: 1 when the wake went out, 0 when the server refused it; holds: what the owner still has, 0
-- REPLY COOLDOWN told left   the claim is gone, and the name is free in `left` ms
-- REPLY NOT_HELD holds       nothing was there to release
-- PUBLISH channel: free, or kept

local holder, fault = read_claim(KEYS[1], AS_A_WRITE)
if fault then
  return fault
end
local claim, state = claim_in(holder)
if claim ~= ARGV[2] then
  return { ARGV[1], 'NOT_HELD', 0 }
end
local keep = tonumber(ARGV[4])
if keep > 0 then
  return { ARGV[1], 'COOLDOWN', keep_text(KEYS[1], claim, state, keep, ARGV[3]), redis.call('PTTL', KEYS[1]) }
end
redis.call('DEL', KEYS[1])
return { ARGV[1], 'RELEASED', wake(ARGV[3], 'free'), 0 }
