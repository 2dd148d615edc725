-- redisson/fair/heartbeat: asks again for claims that wait for names of Redisson's RFairLock; each item is a name and a claim. A claim whose
-- turn it is holds from now on. Never lets a claim join the queue: one that neither holds nor waits is gone. Items never affect each other.
--
-- KEYS[6i-5] main      the owner that holds, as Redisson writes it, see shared/redisson
-- KEYS[6i-4] claims    what is known of our claims
-- KEYS[6i-3] counter   of tokens: the last one drawn by any name of the slot
-- KEYS[6i-2] queue     LIST: the owners that wait, as Redisson writes it, see shared/redisson_queue
-- KEYS[6i-1] timeouts  ZSET: how long each of them is waited for, as Redisson writes it
-- KEYS[6i] places      HASH: owner -> its claim that waits
-- ARGV[1] request      echoed
-- ARGV[4i-2] claim
-- ARGV[4i-1] ttl       of the lease, ms
-- ARGV[4i] floor       the largest token the caller has seen
-- ARGV[4i+1] wait      for how long others wait for this one once it is the first, ms
-- REPLY DONE outcome…  one for each item, in order; a list if it has fields
-- ITEM GRANTED token       the claim holds, because it is its turn or because its owner holds; the lease is armed
-- ITEM WAITING place left  the place in the queue, 1 for the next; ms until the lease of the owner that holds ends, negative: none ends
-- ITEM REVOKED             the claim holds, is revoked, and is not armed again
-- ITEM GONE                the claim neither waits nor holds
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
for i = 1, #KEYS / 6 do
  local main, claims, claim, wait = KEYS[6 * i - 5], KEYS[6 * i - 4], ARGV[4 * i - 2], tonumber(ARGV[4 * i + 1])
  local line = { queue = KEYS[6 * i - 2], timeouts = KEYS[6 * i - 1], places = KEYS[6 * i], now = math.floor(server_now() / 1000) }
  local known, fault = read_claim(main, claims, claim, true)
  local first, owner, place = nil, owner_of(claim), nil
  if not fault then
    first, fault = first_of(line, true)
  end
  if fault then
    return fault
  end
  if first and known.count ~= nil and redis.call('HGET', line.places, owner) == claim then
    place = place_in(line, owner)
  end
  local free, held = known.count == false and redis.call('EXISTS', main) == 0, known.count and is_held(main)
  if known.own and known.revoked then
    reply[i + 2] = 'REVOKED'
  elseif known.own or place and not known.revoked and (held or free and first == owner) then
    if place then
      leave(line, owner, wait)
    end
    local token = hold(main, claims, KEYS[6 * i - 3], claim, known, 'token', ARGV[4 * i], tonumber(ARGV[4 * i - 1]))
    reply[i + 2] = { 'GRANTED', token }
  elseif place then
    arm(line.places, wait)
    reply[i + 2] = { 'WAITING', place, redis.call('PTTL', main) }
  else
    reply[i + 2] = 'GONE'
  end
end
return reply
