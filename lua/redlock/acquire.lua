-- redlock/acquire: makes the claim the holder of a free name on this server, one of several whose majority decides. A server
-- that has been up for less than the longest ttl may have lost claims that are still believed in: it grants nothing. Run
-- again by the holder it arms the ttl again.
--
-- KEYS[1] main       the holder's claim, a string
-- KEYS[2] fence      the last token drawn for the name on this server, or written back to it
-- KEYS[3] tombstone  the tombstone of a release that overtook this claim's acquire
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] ttl        of the lease, ms
-- ARGV[4] floor      the largest token the caller has seen on any of the servers
-- ARGV[5] longest    the longest ttl that anybody uses, ms
-- REPLY GRANTED token     this server's: the grant takes the largest of a majority
-- REPLY BUSY left         ms until the holder's lease ends; negative when it never does
-- REPLY QUARANTINED left  ms until this server takes part again
-- REPLY REVOKED           the claim holds, is revoked, and is not armed again
-- REPLY GONE              this claim has left and must not come back
-- REPLY WRONG_KIND        the name holds another kind's data
-- PUBLISH nothing

local ttl = tonumber(ARGV[3])
local holder, fault = read_claim(KEYS[1], 'GET')
if fault then
  return fault
end

if holder == ARGV[2] then
  arm(KEYS[1], ttl)
  arm(KEYS[2], fence_memory(ttl))
  local token = redis.call('GET', KEYS[2])
  return { ARGV[1], 'GRANTED', token or draw_token(KEYS[2], ARGV[4], ttl, server_now()) }
end
if holder == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
if holder then
  local claim, state = claim_in(holder)
  if claim == ARGV[2] and state == 'revoked' then
    return { ARGV[1], 'REVOKED' }
  end
  return { ARGV[1], 'BUSY', redis.call('PTTL', KEYS[1]) }
end
local out = tonumber(ARGV[5]) - uptime()
if out > 0 then
  return { ARGV[1], 'QUARANTINED', string.format('%.0f', out) }
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return { ARGV[1], 'GONE' }
end
local token = draw_token(KEYS[2], ARGV[4], ttl, server_now())
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return { ARGV[1], 'GRANTED', token }
