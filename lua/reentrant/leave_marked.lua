-- reentrant/leave_marked: the claim goes while an acquire of it is unanswered and may still be on its way. Like
-- reentrant/leave, and leaves a mark for one ttl, so that the acquire, executed late, creates nothing.
--
-- KEYS[1] main     HASH: kind, owner, token, and <claim> -> server ms of the end of its lease
-- KEYS[2] gone     the mark; its life is the last time an acquire of this claim may arrive
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] channel  where waiters of the name listen
-- ARGV[4] ttl      of the mark, ms
-- REPLY LEFT told holds  told: 1 unless the server refused the wake; holds: how many claims its owner still has
-- REPLY NOT_HELD holds   nothing was there to leave, or its lease had ended; the mark stands all the same
-- PUBLISH channel: free

-- First a write that cannot grow: a full server lets the writes behind it pass.
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[2], '1', 'PX', ARGV[4])
local alive, holds, freed, fault = take_out(KEYS[1], 'reentrant', ARGV[2], math.floor(server_now() / 1000))
if fault then
  return fault
end
local told = freed and wake(ARGV[3], 'free') or '1'
if not alive then
  return { ARGV[1], 'NOT_HELD', holds }
end
return { ARGV[1], 'LEFT', told, holds }
