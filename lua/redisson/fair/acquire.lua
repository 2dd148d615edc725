-- redisson/fair/acquire: lets the claim wait for its turn, if others hold or wait for a name of Redisson's RFairLock. Otherwise
-- redisson/acquire, which follows in this script, lets it hold. A repeat by a waiter keeps its place. Only an owner that holds overtakes others.
--
-- KEYS[1] main          the owner that holds, as Redisson writes it, see shared/redisson
-- KEYS[2] claims        what is known of our claims
-- KEYS[3] tombstone     of a release that overtook this claim's acquire
-- KEYS[4] counter       of tokens: the last one drawn by any name of the slot
-- KEYS[5] queue         LIST: the owners that wait, as Redisson writes it, see shared/redisson_queue
-- KEYS[6] timeouts      ZSET: how long each of them is waited for, as Redisson writes it
-- KEYS[7] places        HASH: owner -> its claim that waits
-- ARGV[1] request       echoed
-- ARGV[2] claim
-- ARGV[3] ttl           of the lease, ms
-- ARGV[4] floor         the largest token the caller has seen
-- ARGV[5] token         of the grant that is repeated, which then creates nothing; 0 if none has been granted
-- ARGV[6] fenced        0: the counter is ours
-- ARGV[7] wait          for how long others wait for this one once it is the first, ms
-- ARGV[8] queue_limit   how many owners may wait; -1: any number; 0: the claim does not wait
-- REPLY WAITING left place  ms until the lease of the owner that holds ends, negative: none ends; the place in the queue, 1 for the next
-- REPLY QUEUE_FULL length   `length` owners wait already
-- REPLY GRANTED token
-- REPLY BUSY left    the claim does not wait, or its owner holds and is to let go; left as in WAITING
-- REPLY REVOKED      the claim holds, is revoked, and is not armed again
-- REPLY GONE         this claim has left and must not come back, or it does not hold with that token
-- REPLY WRONG_KIND   the name holds something else
-- PUBLISH nothing

if ARGV[5] == '0' and redis.call('EXISTS', KEYS[3]) == 0 then
  local line = { queue = KEYS[5], timeouts = KEYS[6], places = KEYS[7], now = math.floor(server_now() / 1000) }
  local owner, wait, first, fault = owner_of(ARGV[2]), tonumber(ARGV[7]), first_of(line, false)
  if fault then
    return fault
  end
  if first == nil then
    return { ARGV[1], 'WRONG_KIND' }
  end
  local left = redis.call('PTTL', KEYS[1])
  -- Of anything else under the name redisson/acquire says that it is none of Redisson's locks.
  local others = left == -2 and first and first ~= owner or redis.call('TYPE', KEYS[1]).ok == 'hash' and is_held(KEYS[1])
  others = others and not read_field(KEYS[1], owner)
  if others and ARGV[8] == '0' then
    return { ARGV[1], 'BUSY', left }
  end
  if others then
    local place, length = stand_in(line, ARGV[2], wait, tonumber(ARGV[8]), left)
    return { ARGV[1], place and 'WAITING' or 'QUEUE_FULL', place and left or length, place }
  end
  if first == owner and left == -2 then
    leave(line, owner, wait)
  end
end
