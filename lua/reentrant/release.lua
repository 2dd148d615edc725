-- reentrant/release: the claim goes, every acquire of it having been answered. With the last claim alive the name becomes
-- free, at once or after a while, and the waiters are woken.
--
-- KEYS[1] main      HASH: kind, owner, token, and <claim> -> server ms of the end of its lease
-- ARGV[1] request   echoed
-- ARGV[2] claim
-- ARGV[3] channel   where waiters of the name listen
-- ARGV[4] cooldown  for how long nobody else may hold, ms
-- REPLY RELEASED told holds  told: 1 unless the server refused the wake; holds: how many claims its owner still has
-- REPLY COOLDOWN told left   it was the last claim, and the name is free in `left` ms
-- REPLY NOT_HELD holds       nothing was there to release, or its lease had ended
-- PUBLISH channel: free, or kept

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
