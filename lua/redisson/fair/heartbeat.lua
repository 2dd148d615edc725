-- redisson/fair/heartbeat: asks again for claims that wait for names of Redisson's RFairLock, and grants a name to a claim whose turn it is; each item
-- is a name and a claim. A claim never joins the queue here: one that neither holds nor waits is gone. A key of another type makes only its own
-- item GONE; any other error of the server fails the whole run.
--
-- KEYS[6i-5] main      Redisson's HASH: the owner that holds, see shared/redisson
-- KEYS[6i-4] claims    HASH: the data about our claims
-- KEYS[6i-3] counter   the last token drawn by any name of the slot
-- KEYS[6i-2] queue     LIST: the owners that wait, in order, as Redisson writes it, see shared/redisson_queue
-- KEYS[6i-1] timeouts  ZSET: until when each of them is waited for, as Redisson writes it
-- KEYS[6i] places      HASH: owner -> its claim that waits
-- ARGV[1] request      echoed
-- ARGV[4i-2] claim
-- ARGV[4i-1] ttl       of the lease, ms
-- ARGV[4i] floor       the largest token the caller has seen
-- ARGV[4i+1] wait      how long the others wait for this owner once it is first, ms
-- REPLY DONE outcome…  one for each item, in order; a list if it has fields
-- ITEM GRANTED token       the claim holds, because it is its turn or because its owner holds; at least the ttl of its lease remains
-- ITEM WAITING place left  the place in the queue, 1 for the next; ms until the holder's lease ends, negative: nobody holds, or without end
-- ITEM REVOKED             the claim holds but is revoked; its lease is not extended
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
