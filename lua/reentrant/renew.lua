-- reentrant/renew: arms the leases of claims that hold, each item a name and a claim. Never creates: a claim that is not
-- there, or whose own lease has ended, is gone. What one item meets changes nothing for the others.
--
-- KEYS[i] main     HASH: kind, owner, token, and <claim> -> server ms of the end of its lease
-- ARGV[1] request  echoed
-- ARGV[2i] claim
-- ARGV[2i+1] ttl   of the lease, ms
-- REPLY DONE outcome…  one for each item, in order
-- ITEM RENEWED
-- ITEM REVOKED  the claim holds, is revoked, and is not armed again
-- ITEM GONE     expired, deleted, or another owner's time
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
local now = math.floor(server_now() / 1000)
for i = 1, #KEYS do
  local lease, revoked, fault = read_lease(KEYS[i], ARGV[2 * i])
  if fault then
    return fault
  end
  if lease <= now then
    reply[i + 2] = 'GONE'
  elseif revoked then
    reply[i + 2] = 'REVOKED'
  else
    local ttl = tonumber(ARGV[2 * i + 1])
    redis.call('HSET', KEYS[i], ARGV[2 * i], string.format('%.0f', math.max(lease, now + ttl)))
    arm(KEYS[i], ttl)
    reply[i + 2] = 'RENEWED'
  end
end
return reply
