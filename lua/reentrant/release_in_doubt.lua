-- reentrant/release_in_doubt: the claim goes while an acquire of it is unanswered and may still be on its way. Like
-- reentrant/release, and leaves a tombstone for one ttl, so that the acquire, executed late, creates nothing.
--
-- KEYS[1] main       HASH: kind, owner, token, and <claim> -> server ms of the end of its lease
-- KEYS[2] tombstone  the tombstone; its life is the last time an acquire of this claim may arrive
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] channel    where waiters of the name listen
-- ARGV[4] cooldown   for how long nobody else may hold, ms
-- ARGV[5] ttl        of the tombstone, ms
-- REPLY RELEASED told holds  told: 1 unless the server refused the wake; holds: how many claims its owner still has
-- REPLY COOLDOWN told left   it was the last claim, and the name is free in `left` ms
-- REPLY NOT_HELD holds       nothing was there to release, or its lease had ended; the tombstone stands all the same
-- PUBLISH channel: free, or kept

-- First a write that cannot grow: a full server lets the writes behind it pass.
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[2], '1', 'PX', ARGV[5])
local now = math.floor(server_now() / 1000)
local alive, holds, left, told, fault = take_out(KEYS[1], 'reentrant', ARGV[2], now, tonumber(ARGV[4]), ARGV[3])
if fault then
  return fault
end
if not alive then
  return { ARGV[1], 'NOT_HELD', holds }
end
if left > 0 then
  return { ARGV[1], 'COOLDOWN', told, left }
end
return { ARGV[1], 'RELEASED', told, holds }
