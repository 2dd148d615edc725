-- redisson/rwlock/renew: extends the leases of claims that hold names of Redisson's RReadWriteLock; each item is a name and a claim. Never creates: a
-- claim that is not there is gone. A key of another type makes only its own item GONE; any other error of the server fails the whole run.
--
-- KEYS[3i-2] main    Redisson's HASH: the owners that hold, see shared/redisson_rwlock
-- KEYS[3i-1] claims  HASH: the data about our claims
-- KEYS[3i] timeout   Redisson's key whose ttl is the lease of the reads of the claim's owner
-- ARGV[1] request    echoed
-- ARGV[3i-1] claim
-- ARGV[3i] mode      read or write
-- ARGV[3i+1] ttl     of the lease, ms
-- REPLY DONE outcome…  one for each item, in order
-- ITEM RENEWED
-- ITEM REVOKED   the claim holds but is revoked; its lease is not extended
-- ITEM GONE      expired, deleted, or replaced by another claim
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
for i = 1, #KEYS / 3 do
  local main, claims, timeout = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local claim, mode, ttl = ARGV[3 * i - 1], ARGV[3 * i], tonumber(ARGV[3 * i + 1])
  local known, fault = read_share(main, claims, claim, mode, true)
  if fault then
    return fault
  end
  if not known.own then
    reply[i + 2] = 'GONE'
  elseif known.revoked then
    reply[i + 2] = 'REVOKED'
  else
    arm_share(main, claims, timeout, mode, ttl)
    reply[i + 2] = 'RENEWED'
  end
end
return reply
