-- reentrant/leave: the claim goes, every acquire of it having been answered. With the last claim alive the name becomes
-- free and the waiters are woken.
--
-- KEYS[1] main     HASH: kind, owner, token, and <claim> -> server ms of the end of its lease
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] channel  where waiters of the name listen
-- REPLY LEFT told holds  told: 1 unless the server refused the wake; holds: how many claims its owner still has
-- REPLY NOT_HELD holds   nothing was there to leave, or its lease had ended
-- PUBLISH channel: free

local alive, holds, freed, fault = take_out(KEYS[1], 'reentrant', ARGV[2], math.floor(server_now() / 1000))
if fault then
  return fault
end
local told = freed and wake(ARGV[3], 'free') or '1'
if not alive then
  return { ARGV[1], 'NOT_HELD', holds }
end
return { ARGV[1], 'LEFT', told, holds }
