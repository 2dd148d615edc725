-- redisson/fair/release: takes the claim out of the queue for a name of Redisson's RFairLock if it waits there. Otherwise redisson/release,
-- which follows in this script, releases it; its message is for the first in the queue, or if nobody waits there for those who wait without it.
--
-- KEYS[1] main            the owner that holds, as Redisson writes it, see shared/redisson
-- KEYS[2] claims          what is known of our claims
-- KEYS[3] tombstone       its life is the last time a request of this claim may arrive
-- KEYS[4] queue           LIST: the owners that wait, as Redisson writes it, see shared/redisson_queue
-- KEYS[5] timeouts        ZSET: how long each of them is waited for, as Redisson writes it
-- KEYS[6] places          HASH: owner -> its claim that waits
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] channel         where those wait who do not stand in the queue; with the owner behind it, that of one who does
-- ARGV[4] cooldown        for how long the name is kept from others, ms
-- ARGV[5] tombstone_ttl   of the tombstone, ms; 0: every acquire was answered, no tombstone
-- ARGV[6] wait            for how long others wait for this one once it is the first, ms
-- REPLY RELEASED told holds  told: 1 unless the server refused a message; holds: how often the owner still holds
-- REPLY COOLDOWN told left   it was the owner's last, and the name is kept for `left` ms
-- REPLY NOT_HELD holds       nothing was there to release, or its lease had ended
-- PUBLISH channel:<owner>: 0, to the first in the queue; or channel: 0

local known, fault = read_claim(KEYS[1], KEYS[2], ARGV[2], true)
local line, first = { queue = KEYS[4], timeouts = KEYS[5], places = KEYS[6], now = math.floor(server_now() / 1000) }, nil
if not fault then
  first, fault = first_of(line, true)
end
if fault then
  return fault
end
local owner = owner_of(ARGV[2])
if first and not known.own and redis.call('HGET', KEYS[6], owner) == ARGV[2] then
  if ARGV[5] ~= '0' then
    redis.call('SET', KEYS[3], '1', 'PX', ARGV[5])
  end
  leave(line, owner, tonumber(ARGV[6]))
  -- It may have been told already that the name is free.
  local next = first == owner and redis.call('EXISTS', KEYS[1]) == 0 and first_of(line)
  return { ARGV[1], 'RELEASED', next and wake(channel_to(ARGV[3], next), '0') or '1', tonumber(known.count or '') or 0 }
end
if first then
  ARGV[3] = channel_to(ARGV[3], first)
end
