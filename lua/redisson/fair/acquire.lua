-- redisson/fair/acquire: lets the claim wait for its turn if other owners hold a name of Redisson's RFairLock or wait for it. Otherwise
-- redisson/acquire, which follows in this script, grants the name to it. A repeat by a waiter keeps its place. Only an owner that holds may
-- overtake the queue.
--
-- KEYS[1] main          Redisson's HASH: the owner that holds, see shared/redisson
-- KEYS[2] claims        HASH: the data about our claims
-- KEYS[3] tombstone     left by a release that overtook this claim's acquire
-- KEYS[4] counter       the last token drawn by any name of the slot
-- KEYS[5] queue         LIST: the owners that wait, in order, as Redisson writes it, see shared/redisson_queue
-- KEYS[6] timeouts      ZSET: until when each of them is waited for, as Redisson writes it
-- KEYS[7] places        HASH: owner -> its claim that waits
-- ARGV[1] request       echoed
-- ARGV[2] claim
-- ARGV[3] ttl           of the lease, ms
-- ARGV[4] floor         the largest token the caller has seen
-- ARGV[5] token         of the grant that this request repeats; such a repeat creates nothing; 0: no grant yet
-- ARGV[6] fenced        0: the counter is ours
-- ARGV[7] wait          how long the others wait for this owner once it is first, ms
-- ARGV[8] queue_limit   how many owners may wait; -1: any number; 0: the claim does not wait
-- REPLY WAITING left place  ms until the holder's lease ends, negative: nobody holds, or without end; the place in the queue, 1 for the next
-- REPLY QUEUE_FULL length   `length` owners wait already
-- REPLY GRANTED token
-- REPLY BUSY left    the claim does not wait, or the hold of its owner is revoked; left as in WAITING
-- REPLY REVOKED      the claim holds but is revoked; its lease is not extended
-- REPLY GONE         this claim was released and must not hold again, or does not hold with that token
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
  -- If the name holds anything else, redisson/acquire answers WRONG_KIND.
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
