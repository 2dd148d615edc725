-- reentrant/acquire: makes the claim a holder of a name that is free or whose holder is its own owner. Each claim has a
-- lease of its own; the hold count is the number of claims alive. A re-entry shares the token. Run again by a holder it
-- arms that claim's lease again.
--
-- KEYS[1] main       HASH: kind, owner, token, and <claim> -> server ms of the end of its lease
-- KEYS[2] fence      the last token drawn for the name
-- KEYS[3] tombstone  the tombstone of a release that overtook this claim's acquire
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] ttl        of the lease, ms
-- ARGV[4] floor      the largest token the caller has seen
-- ARGV[5] token      of the grant that is repeated, which then creates nothing; 0 if none has been granted
-- ARGV[6] owner      of the claim
-- REPLY GRANTED token
-- REPLY BUSY left   ms until the last lease of the holder ends, and it is kept no longer
-- REPLY REVOKED     the claim holds, is revoked, and is not armed again
-- REPLY GONE        this claim has left and must not come back, or it is not alive with that token
-- REPLY WRONG_KIND  the name holds another kind's data
-- PUBLISH nothing

local ttl = tonumber(ARGV[3])
local now_us = server_now()
local now = math.floor(now_us / 1000)
-- A repeat is a renewal, and is read like one.
local held, fault = read_holders(KEYS[1], 'reentrant', now, ARGV[5] ~= '0')
if fault then
  return fault
end
if not held then
  return { ARGV[1], 'WRONG_KIND' }
end
local lease = held.leases[ARGV[2]] or 0
if held.revoked and lease > now then
  return { ARGV[1], 'REVOKED' }
end
-- A hold that is to end, or that has left and keeps the name, lets nobody in, not even its owner.
if held.taken and (held.owner ~= ARGV[6] or held.revoked or held.alive == 0) then
  return { ARGV[1], 'BUSY', held.ends - now }
end
local repeated = lease > now and held.token == ARGV[5]
if ARGV[5] ~= '0' and not repeated or redis.call('EXISTS', KEYS[3]) == 1 then
  return { ARGV[1], 'GONE' }
end
local ends = string.format('%.0f', math.max(lease, now + ttl))
if held.taken then
  for _, field in ipairs(held.dead) do
    redis.call('HDEL', KEYS[1], field)
  end
  redis.call('HSET', KEYS[1], ARGV[2], ends)
else
  if #held.dead > 0 then
    redis.call('DEL', KEYS[1])
  end
  held.token = draw_token(KEYS[2], ARGV[4], ttl, now_us)
  redis.call('HSET', KEYS[1], 'kind', 'reentrant', 'owner', ARGV[6], 'token', held.token, ARGV[2], ends)
end
arm(KEYS[1], ttl)
return { ARGV[1], 'GRANTED', held.token }
