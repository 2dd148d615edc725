-- redisson/renew: arms the leases of claims that hold names of Redisson's, each item a name and a claim. Never creates: a claim that is not
-- there is gone. What one item meets changes nothing for the others.
--
-- KEYS[2i-1] main    the owner that holds, as Redisson writes it, see shared/redisson
-- KEYS[2i] claims    what is known of our claims
-- ARGV[1] request    echoed
-- ARGV[2i] claim
-- ARGV[2i+1] ttl     of the lease, ms
-- REPLY DONE outcome…  one for each item, in order
-- ITEM RENEWED
-- ITEM REVOKED   the claim holds, is revoked, and is not armed again
-- ITEM GONE      expired, deleted, or somebody else's
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
for i = 1, #KEYS / 2 do
  local main, claims, claim, ttl = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i], tonumber(ARGV[2 * i + 1])
  local known, fault = read_claim(main, claims, claim, true)
  if fault then
    return fault
  end
  if not known.own then
    reply[i + 2] = 'GONE'
  elseif known.revoked then
    reply[i + 2] = 'REVOKED'
  else
    arm(main, ttl)
    arm(claims, ttl)
    reply[i + 2] = 'RENEWED'
  end
end
return reply
