-- redisson/release: the claim goes, and with its owner's last one the name is free, or stands as that of a claim that has left for the rest of
-- the shortest time to hold. While an acquire of the claim is unanswered the release makes a tombstone, so that it, executed late, creates
-- nothing.
--
-- KEYS[1] main            the owner that holds, as Redisson writes it, see shared/redisson
-- KEYS[2] claims          what is known of our claims
-- KEYS[3] tombstone       its life is the last time a request of this claim may arrive
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] channel         where those who wait listen, Redisson's clients too
-- ARGV[4] cooldown        for how long the name is kept from others, ms
-- ARGV[5] tombstone_ttl   of the tombstone, ms; 0: every acquire was answered, no tombstone
-- REPLY RELEASED told holds  told: 1 unless the server refused a message; holds: how often the owner still holds
-- REPLY COOLDOWN told left   it was the owner's last, and the name is kept for `left` ms
-- REPLY NOT_HELD holds       nothing was there to release, or its lease had ended
-- PUBLISH channel: 0

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
local now = math.floor(server_now() / 1000)
local others = tonumber(redis.call('HGET', KEYS[2], 'kept') or '') or 0
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
if kept > now then
  redis.call('HSET', KEYS[1], claim, 1)
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', kept - now))
  return { ARGV[1], 'COOLDOWN', wake(ARGV[3], '0'), kept - now }
end
return { ARGV[1], 'RELEASED', wake(ARGV[3], '0'), 0 }
