-- redisson/verify: checks whether the claim holds a name of Redisson's. Changes nothing.
--
-- KEYS[1] main     Redisson's HASH: the owner that holds, see shared/redisson
-- KEYS[2] claims   HASH: the data about our claims
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- REPLY HELD left  ms until the lease ends on the server; negative: without end
-- REPLY REVOKED    the claim holds but is revoked
-- REPLY GONE       expired, deleted, or replaced by another claim
-- PUBLISH nothing

local known, fault = read_claim(KEYS[1], KEYS[2], ARGV[2], true)
if fault then
  return fault
end
if not known.own then
  return { ARGV[1], 'GONE' }
end
if known.revoked then
  return { ARGV[1], 'REVOKED' }
end
return { ARGV[1], 'HELD', redis.call('PTTL', KEYS[1]) }
