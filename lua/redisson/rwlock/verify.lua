-- redisson/rwlock/verify: asks whether the claim reads or writes by a name of Redisson's. Changes nothing.
--
-- KEYS[1] main     who holds, as Redisson writes it, see shared/redisson_rwlock
-- KEYS[2] claims   what is known of our claims
-- KEYS[3] timeout  of the reads of the claim's owner, as Redisson calls it
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] mode     read or write
-- REPLY HELD left  ms until the lease of the write, or of the reads of the owner, ends on the server; negative: without end
-- REPLY REVOKED    the claim holds and is revoked
-- REPLY GONE       expired, deleted, or somebody else's
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
