-- mutex/renew: arms the leases of claims that hold, each item a name and a claim. Never creates: a claim that is not there
-- is gone. What one item meets, another type under its key for example, changes nothing for the others.
--
-- KEYS[i] main     the holder's claim, a string
-- ARGV[1] request  echoed
-- ARGV[2i] claim
-- ARGV[2i+1] ttl   of the lease, ms
-- REPLY DONE outcome…  one for each item, in order
-- ITEM RENEWED
-- ITEM REVOKED  the claim holds, is revoked, and is not armed again
-- ITEM GONE     expired, deleted, or somebody else's
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
for i = 1, #KEYS do
  local holder, fault = read_claim(KEYS[i], AS_A_WRITE)
  if fault then
    return fault
  end
  local claim, state = claim_in(holder)
  if claim ~= ARGV[2 * i] or state == 'kept' then
    reply[i + 2] = 'GONE'
  elseif state == 'revoked' then
    reply[i + 2] = 'REVOKED'
  else
    arm(KEYS[i], tonumber(ARGV[2 * i + 1]))
    reply[i + 2] = 'RENEWED'
  end
end
return reply
