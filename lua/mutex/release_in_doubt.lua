-- mutex/release_in_doubt: the claim goes while an acquire of it is unanswered and may still be on its way. Like mutex/release,
-- and leaves a tombstone for one ttl, so that the acquire, executed late, creates nothing.
--
-- KEYS[1] main       the holder's claim, a string
-- KEYS[2] tombstone  the tombstone; its life is the last time an acquire of this claim may arrive
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] channel    where waiters of the name listen
-- ARGV[4] cooldown   for how long nobody else may hold, ms
-- ARGV[5] ttl        of the tombstone, ms
-- REPLY RELEASED told holds  told: 1 when the wake went out, 0 when the server refused it; holds: what the owner still has, 0
-- REPLY COOLDOWN told left   the claim is gone, and the name is free in `left` ms
-- REPLY NOT_HELD holds       nothing was there to release; the tombstone stands all the same
-- PUBLISH channel: free, or kept

-- First a write that cannot grow: a full server lets the writes behind it pass.
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[2], '1', 'PX', ARGV[5])
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
