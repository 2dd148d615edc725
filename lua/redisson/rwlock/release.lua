-- redisson/rwlock/release: releases the claim. If no other holder has a lease, the name becomes free, or goes into cooldown until the longest minimum
-- hold time is over. When an owner that also reads releases its last write, others may read. The lease of the other holders is never shortened. While
-- an acquire of the claim is unanswered, the release leaves a tombstone, so that the acquire creates nothing if it is executed late.
--
-- KEYS[1] main            Redisson's HASH: the owners that hold, see shared/redisson_rwlock
-- KEYS[2] claims          HASH: the data about our claims
-- KEYS[3] tombstone       lives for as long as a request of this claim may still arrive
-- KEYS[4] timeout         Redisson's key whose ttl is the lease of the reads of the claim's owner
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] mode            read or write
-- ARGV[4] channel         on which waiters listen, Redisson's clients too
-- ARGV[5] cooldown        how long the name stays unavailable, ms
-- ARGV[6] tombstone_ttl   ttl of the tombstone, ms; 0: no tombstone, because every acquire was answered
-- REPLY RELEASED told holds  told: 0 if the server refused a message, otherwise 1; holds: how often the owner still holds, in either mode
-- REPLY COOLDOWN told left   it was the last hold of the name, which is in cooldown for `left` ms
-- REPLY NOT_HELD holds       there was nothing to release, or the lease had ended
-- PUBLISH channel: 0 after a read, 1 after a write, if waiters may hold now or the name is in cooldown

local claim, mode, owner = ARGV[2], ARGV[3], owner_of(ARGV[2])
local known, fault = read_share(KEYS[1], KEYS[2], claim, mode, true)
if fault then
  return fault
end
if ARGV[6] ~= '0' then
  redis.call('SET', KEYS[3], '1', 'PX', ARGV[6])
end
if known.cooling == claim and redis.call('HGET', KEYS[1], claim) then
  return { ARGV[1], 'COOLDOWN', '1', redis.call('PTTL', KEYS[1]) }
end
if not known.own then
  return { ARGV[1], 'NOT_HELD', known.count ~= nil and holds_of(KEYS[1], owner) or 0 }
end
local now = math.floor(server_now() / 1000)
local others = tonumber(redis.call('HGET', KEYS[2], 'kept') or '') or 0
local kept = math.max(others, ARGV[5] ~= '0' and now + tonumber(ARGV[5]) or 0)
local holds = redis.call('HINCRBY', KEYS[1], known.field, -1)
redis.call('HDEL', KEYS[2], claim)
if holds <= 0 then
  redis.call('HDEL', KEYS[1], known.field)
  redis.call('HDEL', KEYS[2], known.field)
end
if mode ~= 'write' and holds <= 0 then
  redis.call('DEL', KEYS[4])
elseif mode ~= 'write' then -- One that Java counts with it may have its lease under another number.
  arm_share(KEYS[1], KEYS[2], KEYS[4], mode, redis.call('PTTL', KEYS[1]))
end
local message, opens = mode == 'write' and '1' or '0', mode == 'write' and holds <= 0
local remain = redis.call('HLEN', KEYS[1]) > 1
if remain and opens then
  redis.call('HSET', KEYS[1], 'mode', 'read')
end
if remain and (holds > 0 or redis.call('HGET', KEYS[1], 'mode') == 'write' or is_read(KEYS[1], KEYS[4], owner)) then
  if kept > now then
    redis.call('HSET', KEYS[2], 'kept', string.format('%.0f', kept))
  end
  return { ARGV[1], 'RELEASED', opens and wake(ARGV[4], message) or '1', holds_of(KEYS[1], owner) }
end
redis.call('DEL', KEYS[1], KEYS[2])
if kept > now then
  redis.call('HSET', KEYS[1], 'mode', mode, claim, 1)
  redis.call('HSET', KEYS[2], 'cooling', claim, 'kept', string.format('%.0f', kept))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', kept - now))
  redis.call('PEXPIRE', KEYS[2], string.format('%.0f', kept - now))
  return { ARGV[1], 'COOLDOWN', wake(ARGV[4], message), kept - now }
end
return { ARGV[1], 'RELEASED', wake(ARGV[4], message), 0 }
