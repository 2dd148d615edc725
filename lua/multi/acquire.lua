-- multi/acquire: lets claims hold several names, each of a kind whose claims take all of it and do not queue: all of them or none. What
-- lies under a name is what its own kind writes. Run again by the holders it arms their leases again and gives the same tokens.
--
-- KEYS[6i-5] main       the value of one claim, or a marker, see shared/value
-- KEYS[6i-4] counter    the last token drawn by any name of the slot
-- KEYS[6i-3] tombstone  of a release that overtook this claim's acquire
-- KEYS[6i-2] holders    ZSET: <flag><share>:<claim> -> server ms of the end of its lease
-- KEYS[6i-1] queue      ZSET: <share>:<claim> -> its ticket
-- KEYS[6i] state        HASH: what else is known of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request       echoed
-- ARGV[7i-5] claim
-- ARGV[7i-4] ttl        of the lease, ms
-- ARGV[7i-3] floor      the largest token the caller has seen
-- ARGV[7i-2] kind
-- ARGV[7i-1] reenters   1 if an owner that holds is let in again
-- ARGV[7i] polls        1 if the claim asks again when it is told that the name is free
-- ARGV[7i+1] polled     1 if others of the client poll the name
-- REPLY DONE outcome…   one for each item, in order; one with fields is a list. GRANTED is the outcome of all items or of none
-- ITEM GRANTED token
-- ITEM FREE        nothing keeps this claim from its name, but another item is refused
-- ITEM BUSY left foreign  ms until the holder's lease ends; negative when it never does; foreign: 1 if it is another library's
-- ITEM REVOKED     the claim holds, is revoked, and is not armed again
-- ITEM GONE        this claim has left and must not come back
-- ITEM WRONG_KIND  the name holds another kind's data, or is that of an item before
-- PUBLISH nothing

local reply, names, named, refused = { ARGV[1], 'DONE' }, {}, {}, false
for i = 1, #KEYS / 6 do
  local name = { main = KEYS[6 * i - 5], counter = KEYS[6 * i - 4], holders = KEYS[6 * i - 2], queue = KEYS[6 * i - 1] }
  name.state, name.floor, name.kind, name.reenters = KEYS[6 * i], ARGV[7 * i - 3], ARGV[7 * i - 2], ARGV[7 * i - 1] == '1'
  -- Nobody queues for it.
  name.waiter_ttl = 0
  local outcome, fault = refusal(name, ARGV[7 * i - 5], KEYS[6 * i - 3])
  if fault then
    return fault
  end
  if named[name.main] then
    outcome = 'WRONG_KIND'
  end
  if outcome and outcome[1] == 'BUSY' and ARGV[7 * i] == '1' and not name.foreign then
    ask_for_wake(name)
  end
  name.polled = name.polled or ARGV[7 * i + 1] == '1'
  reply[i + 2] = outcome or 'FREE'
  names[i], named[name.main], refused = name, true, refused or outcome
end
for i, name in ipairs(names) do
  local claim, ttl = ARGV[7 * i - 5], tonumber(ARGV[7 * i - 4])
  if not refused and name.token_of_claim then
    go_on(name, 'x', claim, name.ends, ttl)
    reply[i + 2] = { 'GRANTED', name.token_of_claim }
  elseif not refused then
    reply[i + 2] = { 'GRANTED', admit(name, 'x', claim, ttl) }
  end
  if name.inflated then
    save(name)
    keep(name)
  end
end
return reply
