-- redlock/raise: writes the largest token of a majority back to a server on which the claim holds, so that whoever is granted
-- there next draws a larger one. Where the claim does not hold nothing is written: somebody else may have drawn since.
-- Arms nothing, and lowers nothing.
--
-- KEYS[1] main     the holder's claim, a string
-- KEYS[2] fence    the last token drawn for the name on this server, or written back to it
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] ttl      of the lease, ms
-- ARGV[4] token    the largest of a majority
-- REPLY RAISED   the claim holds, and the next token here is larger
-- REPLY REVOKED  the claim holds and is revoked; nothing is written
-- REPLY GONE     expired, deleted, or somebody else's; nothing is written
-- PUBLISH nothing

local holder, fault = read_claim(KEYS[1], AS_A_WRITE)
if fault then
  return fault
end
local claim, state = claim_in(holder)
if claim ~= ARGV[2] or state == 'kept' then
  return { ARGV[1], 'GONE' }
end
if state == 'revoked' then
  return { ARGV[1], 'REVOKED' }
end
local token = token_number(ARGV[4])
if token > token_number(redis.call('GET', KEYS[2])) then
  -- Another server's clock may be ahead of this one's: kept until this one has caught up, and the usual time more.
  local ahead = math.max(math.ceil((token - server_now()) / 1000), 0)
  local memory = fence_memory(tonumber(ARGV[3])) + ahead
  redis.call('SET', KEYS[2], ARGV[4], 'PX', string.format('%.0f', memory))
end
return { ARGV[1], 'RAISED' }
