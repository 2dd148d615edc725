-- lock/renew: extends the leases of claims that hold alone; each item is a name and a claim. Never creates: a claim that is not
-- there is gone. A key of another type makes only its own item GONE; any other error of the server fails the whole run.
--
-- KEYS[i] main       the value of one claim, or a marker, see shared/value
-- ARGV[1] request    echoed
-- ARGV[2i] claim
-- ARGV[2i+1] ttl     of the lease, ms
-- REPLY DONE outcome…  one for each item, in order
-- ITEM RENEWED
-- ITEM INFLATED  the name is inflated: run lock/renew_inflated instead
-- ITEM REVOKED   the claim holds but is revoked; its lease is not extended
-- ITEM GONE      expired, deleted, released, or replaced by another claim
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
for i = 1, #KEYS do
  local value, fault = read_value(KEYS[i], true)
  if fault then
    return fault
  end
  local _, _, claim, _, flags = claim_of(value)
  if is_marker(value) then
    reply[i + 2] = 'INFLATED'
  elseif claim ~= ARGV[2 * i] or string.find(flags, 'c', 1, true) then
    reply[i + 2] = 'GONE'
  elseif string.find(flags, 'r', 1, true) then
    reply[i + 2] = 'REVOKED'
  else
    arm(KEYS[i], tonumber(ARGV[2 * i + 1]))
    reply[i + 2] = 'RENEWED'
  end
end
return reply
