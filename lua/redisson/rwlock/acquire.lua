-- redisson/rwlock/acquire: grants a name of Redisson's RReadWriteLock to the claim, to read or to write: if the name is free, beside other readers, or
-- inside a write of the claim's owner. A repeat by a holder extends the lease and does not count the claim a second time.
--
-- KEYS[1] main       Redisson's HASH: the owners that hold, see shared/redisson_rwlock
-- KEYS[2] claims     HASH: the data about our claims
-- KEYS[3] tombstone  left by a release that overtook this claim's acquire
-- KEYS[4] counter    the last token drawn by any name of the slot
-- KEYS[5] timeout    Redisson's key whose ttl is the lease of the reads of the claim's owner
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] mode       read or write
-- ARGV[4] ttl        of the lease, ms
-- ARGV[5] floor      the largest token the caller has seen
-- ARGV[6] token      of the grant that this request repeats; such a repeat creates nothing; 0: no grant yet
-- REPLY GRANTED token
-- REPLY BUSY left        others hold, or the hold of the owner is revoked; ms until the last lease of the name ends; negative: without end
-- REPLY WOULD_DEADLOCK   the owner reads and asks to write, so it would wait for itself
-- REPLY REVOKED          the claim holds but is revoked; its lease is not extended
-- REPLY GONE             this claim was released and must not hold again, or does not hold with that token
-- REPLY WRONG_KIND       the name holds something else
-- PUBLISH nothing

local claim, mode, ttl, owner = ARGV[2], ARGV[3], tonumber(ARGV[4]), owner_of(ARGV[2])
local known, fault = read_share(KEYS[1], KEYS[2], claim, mode, ARGV[6] ~= '0') -- A repeat is a renewal, and is read like one.
if fault then
  return fault
end
if known.count == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
local own, token = known.own, known.token
if redis.call('EXISTS', KEYS[3]) == 1 or ARGV[6] ~= '0' and own ~= ARGV[6] then
  return { ARGV[1], 'GONE' }
end
if own and known.revoked then
  return { ARGV[1], 'REVOKED' }
end
local left = redis.call('PTTL', KEYS[1])
local stands, reads, writes = unpack(redis.call('HMGET', KEYS[1], 'mode', owner, field_of(owner, 'write')))
if left ~= -2 and stands ~= 'read' and stands ~= 'write' then
  return { ARGV[1], 'WRONG_KIND' }
end
if stands == 'read' and mode == 'write' and reads then
  return { ARGV[1], 'WOULD_DEADLOCK' }
end
local inside, outer, outer_revoked = stands == 'write' and writes, token_of(known.outer)
local revoked = known.revoked or inside and outer_revoked == ' r'
if stands and not inside and (stands == 'write' or mode == 'write') or revoked and not own then
  return { ARGV[1], 'BUSY', left }
end
if not own then
  token = token or inside and outer or stands == 'read' and known.read
  token = token or draw_again(KEYS[4], ARGV[5]) or draw_token(KEYS[4], ARGV[5], server_now())
  redis.call('HINCRBY', KEYS[1], known.field, 1) -- First: without the right to do this nothing is left behind.
  if not stands then
    redis.call('DEL', KEYS[2])
    redis.call('HSET', KEYS[1], 'mode', mode)
  end
  if inside then
    redis.call('HDEL', KEYS[2], 'read')
  elseif mode ~= 'write' and not known.token then
    redis.call('HSET', KEYS[2], 'read', token)
  end
  if stands and known.cooling and not inside then
    redis.call('HDEL', KEYS[1], known.cooling)
  end
  local part, hold = string.match(claim, '%x*$'), known.hold
  hold = hold or string.format('%s %s', part, token)
  redis.call('HSET', KEYS[2], claim, hold, known.field, hold)
end
arm_share(KEYS[1], KEYS[2], KEYS[5], mode, ttl)
return { ARGV[1], 'GRANTED', own or token }
