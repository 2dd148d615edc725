-- name/inspect: reads the holders of a name, whatever its kind. Changes nothing.
--
-- KEYS[1] main     the value of one claim, or a marker, see shared/value
-- KEYS[2] holders  ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[3] queue    ZSET: <share>:<claim> -> its ticket
-- KEYS[4] state    HASH: further data of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request  echoed
-- ARGV[2] channel  on which pollers of the name listen
-- REPLY FOUND kind token waiters claims limit  kind: empty for another library's value; token: of the hold, empty if each claim has its own;
--                                              waiters: how many claims wait in the queue, or else how many clients listen; negative if
--                                              the server does not say; claims: {claim, left, state, share}…, where left is in ms,
--                                              negative: without end, and state is held, revoked or cooldown; limit: the number of parts,
--                                              0: unlimited
-- REPLY FREE waiters                           nobody holds
-- REPLY WRONG_KIND                             the name holds no lock
-- PUBLISH nothing

local name = { main = KEYS[1], holders = KEYS[2], queue = KEYS[3], state = KEYS[4] }
local readable, fault = read_standing(name, true)
if not readable and not fault and not name.foreign then
  readable, fault = read_redisson(name)
end
if fault then
  return fault
end
if not readable and not name.foreign then
  return { ARGV[1], 'WRONG_KIND' }
end
local length = name.inflated and redis.pcall('ZCARD', name.queue) or 0
local waiters = type(length) == 'number' and length > 0 and length or listeners(ARGV[2])
local claims = standing(name)
if #claims == 0 then
  return { ARGV[1], 'FREE', waiters }
end
return { ARGV[1], 'FOUND', name.found or '', name.token or '', waiters, claims, name.limit or 0 }
