-- redisson/fair/release: withdraws the claim if it waits in the queue for a name of Redisson's RFairLock. Otherwise redisson/release, which follows
-- in this script, releases it. The message then goes to the first owner in the queue or, if the queue is empty, to clients that wait outside it.
--
-- KEYS[1] main            Redisson's HASH: the owner that holds, see shared/redisson
-- KEYS[2] claims          HASH: the data about our claims
-- KEYS[3] tombstone       lives for as long as a request of this claim may still arrive
-- KEYS[4] queue           LIST: the owners that wait, in order, as Redisson writes it, see shared/redisson_queue
-- KEYS[5] timeouts        ZSET: until when each of them is waited for, as Redisson writes it
-- KEYS[6] places          HASH: owner -> its claim that waits
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] channel         on which clients outside the queue listen; followed by an owner, the channel of a waiter in the queue
-- ARGV[4] cooldown        how long the name stays unavailable, ms
-- ARGV[5] tombstone_ttl   ttl of the tombstone, ms; 0: no tombstone, because every acquire was answered
-- ARGV[6] wait            how long the others wait for this owner once it is first, ms
-- REPLY RELEASED told holds  told: 0 if the server refused a message, otherwise 1; holds: how often the owner still holds
-- REPLY COOLDOWN told left   it was the owner's last claim, and the name is in cooldown for `left` ms
-- REPLY NOT_HELD holds       there was nothing to release, or the lease had ended
-- PUBLISH channel:<owner>: 0, to the first in the queue; or channel: 0, if the queue is empty

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
  -- This waiter may already have been told that the name is free. Then the next one must be told.
  local next = first == owner and redis.call('EXISTS', KEYS[1]) == 0 and first_of(line)
  return { ARGV[1], 'RELEASED', next and wake(channel_to(ARGV[3], next), '0') or '1', tonumber(known.count or '') or 0 }
end
if first ~= nil then
  first_in_line = first
end
