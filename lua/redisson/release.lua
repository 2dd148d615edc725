-- redisson/release: releases the claim. With the owner's last claim the name becomes free, or goes into cooldown until the longest minimum hold
-- time of the owner's claims is over. While an acquire of the claim is unanswered, the release leaves a tombstone, so that the acquire creates
-- nothing if it is executed late.
--
-- KEYS[1] main            Redisson's HASH: the owner that holds, see shared/redisson
-- KEYS[2] claims          HASH: the data about our claims
-- KEYS[3] tombstone       lives for as long as a request of this claim may still arrive
-- KEYS[4] queue           LIST: the owners that wait for an RFairLock of this name, as Redisson writes it
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] channel         on which waiters listen, Redisson's clients too; followed by an owner, the channel of a waiter in the queue
-- ARGV[4] cooldown        how long the name stays unavailable, ms
-- ARGV[5] tombstone_ttl   ttl of the tombstone, ms; 0: no tombstone, because every acquire was answered
-- REPLY RELEASED told holds  told: 0 if the server refused a message, otherwise 1; holds: how often the owner still holds
-- REPLY COOLDOWN told left   it was the owner's last claim, and the name is in cooldown for `left` ms
-- REPLY NOT_HELD holds       there was nothing to release, or the lease had ended
-- PUBLISH channel: 0, after the owner's last claim; then also channel:<owner>: 0, to the first in the queue

local claim, owner = ARGV[2], owner_of(ARGV[2])
local known, fault = read_claim(KEYS[1], KEYS[2], claim, true)
if fault then
  return fault
end
if ARGV[5] ~= '0' then
  redis.call('SET', KEYS[3], '1', 'PX', ARGV[5])
end
if known.count == false and redis.call('HGET', KEYS[1], claim) then
  return { ARGV[1], 'COOLDOWN', '1', redis.call('PTTL', KEYS[1]) }
end
if not known.own then
  return { ARGV[1], 'NOT_HELD', tonumber(known.count or '') or 0 }
end
local others = tonumber(redis.call('HGET', KEYS[2], 'kept') or '') or 0
local now = (others > 0 or ARGV[4] ~= '0') and math.floor(server_now() / 1000) or 0
local kept = math.max(others, ARGV[4] ~= '0' and now + tonumber(ARGV[4]) or 0)
local holds = redis.call('HINCRBY', KEYS[1], owner, -1)
redis.call('HDEL', KEYS[2], claim)
if holds > 0 then
  if kept > now then
    redis.call('HSET', KEYS[2], 'kept', string.format('%.0f', kept))
  end
  return { ARGV[1], 'RELEASED', '1', holds }
end
redis.call('DEL', KEYS[1], KEYS[2])
local told = tell_waiters(ARGV[3], KEYS[4])
if kept > now then
  redis.call('HSET', KEYS[1], claim, 1)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', kept - now))
  return { ARGV[1], 'COOLDOWN', told, kept - now }
end
return { ARGV[1], 'RELEASED', told, 0 }
