-- redisson/renew: extends the leases of claims that hold names of Redisson's; each item is a name and a claim. Never creates: a claim that is not
-- there is gone. A key of another type makes only its own item GONE; any other error of the server fails the whole run.
--
-- KEYS[2i-1] main    Redisson's HASH: the owner that holds, see shared/redisson
-- KEYS[2i] claims    HASH: the data about our claims
-- ARGV[1] request    echoed
-- ARGV[2i] claim
-- ARGV[2i+1] ttl     of the lease, ms
-- REPLY DONE outcome…  one for each item, in order
-- ITEM RENEWED
-- ITEM REVOKED   the claim holds but is revoked; its lease is not extended
-- ITEM GONE      expired, deleted, or replaced by another claim
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
