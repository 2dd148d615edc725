-- redisson/rwlock/verify: checks whether the claim holds a name of Redisson's RReadWriteLock. Changes nothing.
--
-- KEYS[1] main     Redisson's HASH: the owners that hold, see shared/redisson_rwlock
-- KEYS[2] claims   HASH: the data about our claims
-- KEYS[3] timeout  Redisson's key whose ttl is the lease of the reads of the claim's owner
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] mode     read or write
-- REPLY HELD left  ms until the lease of the write, or of the owner's reads, ends on the server; negative: a write without end; 0: a read without
--                  a known end
-- REPLY REVOKED    the claim holds but is revoked
-- REPLY GONE       expired, deleted, or replaced by another claim
-- PUBLISH nothing

local known, fault = read_share(KEYS[1], KEYS[2], ARGV[2], ARGV[3], true)
if fault then
  return fault
end
if not known.own then
  return { ARGV[1], 'GONE' }
end
if known.revoked then
  return { ARGV[1], 'REVOKED' }
end
local left = redis.call('PTTL', KEYS[1])
if ARGV[3] ~= 'write' then
  left = math.max(math.min(left, redis.call('PTTL', KEYS[3])), 0)
end
return { ARGV[1], 'HELD', left }
