-- redisson/acquire: lets the claim hold a name of Redisson's that is free, or that its owner holds. Run again by a holder it arms the lease, and
-- does not count the claim a second time.
--
-- KEYS[1] main       the owner that holds, as Redisson writes it, see shared/redisson
-- KEYS[2] claims     what is known of our claims
-- KEYS[3] tombstone  of a release that overtook this claim's acquire
-- KEYS[4] counter    of tokens: the last one drawn by any name of the slot, or Redisson's own of this name
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] ttl        of the lease, ms
-- ARGV[4] floor      the largest token the caller has seen
-- ARGV[5] token      of the grant that is repeated, which then creates nothing; 0 if none has been granted
-- ARGV[6] fenced     1 if the counter is Redisson's, which counts in ones
-- REPLY GRANTED token
-- REPLY BUSY left    another owner holds, or this one is to let go; ms until its lease ends; negative: without end
-- REPLY REVOKED      the claim holds, is revoked, and is not armed again
-- REPLY GONE         this claim has left and must not come back, or it does not hold with that token
-- REPLY WRONG_KIND   the name holds something else
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
return { ARGV[1], 'GRANTED', hold(KEYS[1], KEYS[2], KEYS[4], claim, known, source, ARGV[4], tonumber(ARGV[3])) }
