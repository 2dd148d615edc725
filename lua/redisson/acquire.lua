-- redisson/acquire: grants a name of Redisson's to the claim if the name is free, or if the claim's owner holds it. A repeat by a holder extends
-- the lease and does not count the claim a second time.
--
-- KEYS[1] main       Redisson's HASH: the owner that holds, see shared/redisson
-- KEYS[2] claims     HASH: the data about our claims
-- KEYS[3] tombstone  left by a release that overtook this claim's acquire
-- KEYS[4] counter    the last token drawn by any name of the slot, or the one that Redisson has drawn for this name
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] ttl        of the lease, ms
-- ARGV[4] floor      the largest token the caller has seen
-- ARGV[5] token      of the grant that this request repeats; such a repeat creates nothing; 0: no grant yet
-- ARGV[6] fenced     1 if the counter is Redisson's, which counts in ones
-- REPLY GRANTED token
-- REPLY BUSY left    another owner holds, the name is in cooldown, or the hold of this owner is revoked; ms until that ends; negative: without end
-- REPLY REVOKED      the claim holds but is revoked; its lease is not extended
-- REPLY GONE         this claim was released and must not hold again, or does not hold with that token
-- REPLY WRONG_KIND   the name, or the counter of an RFencedLock, holds something else
-- PUBLISH nothing

local claim = ARGV[2]
local known, fault = read_claim(KEYS[1], KEYS[2], claim, ARGV[5] ~= '0') -- A repeat is a renewal, and is read like one.
if fault then
  return fault
end
if known.count == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
local source = ARGV[6] == '1' and 'fenced' or 'token'
local count, own, revoked = known.count, known.own, known.revoked
if redis.call('EXISTS', KEYS[3]) == 1 or ARGV[5] ~= '0' and own ~= ARGV[5] then
  return { ARGV[1], 'GONE' }
end
if own and revoked then
  return { ARGV[1], 'REVOKED' }
end
local left = redis.call('PTTL', KEYS[1])
if left ~= -2 and not is_held(KEYS[1]) then
  return { ARGV[1], 'WRONG_KIND' }
end
if left ~= -2 and not count or revoked then
  return { ARGV[1], 'BUSY', left }
end
local token, fault = hold(KEYS[1], KEYS[2], KEYS[4], claim, known, source, ARGV[4], tonumber(ARGV[3]))
if fault then
  return fault
end
if not token then
  return { ARGV[1], 'WRONG_KIND' }
end
return { ARGV[1], 'GRANTED', token }
