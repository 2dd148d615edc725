-- mutex/renew: arms the leases of claims that hold, each item a name and a claim. Never creates: a claim that is not there
-- is gone. What one item meets, another type under its key for example, changes nothing for the others.
--
-- KEYS[i] main         the holder's claim, a string
-- ARGV[1] request      echoed
-- ARGV[2i] claim
-- ARGV[2i+1] ttl       of the lease, ms
-- REPLY DONE outcome…  one for each item, in order
-- ITEM RENEWED
-- ITEM GONE            expired, deleted, or somebody else's
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
for i = 1, #KEYS do
  local holder, fault = read_claim(KEYS[i], AS_A_WRITE)
  if fault then
    return fault
  end
  if holder == ARGV[2 * i] then
    arm(KEYS[i], tonumber(ARGV[2 * i + 1]))
    reply[i + 2] = 'RENEWED'
  else
    reply[i + 2] = 'GONE'
  end
end
return reply
