-- lock/acquire: grants a name to the claim if the name is free, if the share fits beside the holders, or if the claim's owner holds already. Otherwise
-- the claim may wait. A repeat by a holder extends its lease; a repeat by a waiter keeps its place. Only an owner that holds overtakes live waiters.
--
-- KEYS[1] main          the value of one claim, or a marker, see shared/value
-- KEYS[2] counter       the last token drawn by any name of the slot
-- KEYS[3] tombstone     left by a release that overtook this claim's acquire
-- KEYS[4] holders       ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[5] queue         ZSET: <share>:<claim> -> its ticket
-- KEYS[6] state         HASH: further data of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request       echoed
-- ARGV[2] claim
-- ARGV[3] ttl           of the lease, ms
-- ARGV[4] floor         the largest token the caller has seen
-- ARGV[5] token         of the grant that this request repeats; such a repeat creates nothing; 0: no grant yet
-- ARGV[6] kind
-- ARGV[7] share         x: all of the name; n: n parts; n/limit: n of `limit` parts
-- ARGV[8] polled        1 if other claims of the client poll the name
-- ARGV[9] waiter_ttl    how long a waiter stays alive without a heartbeat, ms
-- ARGV[10] channel      on which pollers listen; for a kind with a queue, the prefix of the grant channels
-- ARGV[11] queue_limit  how many claims may wait; -1: any number; 0: the claim does not wait; poll: it asks again after a message
-- ARGV[12] reenters     1 if an owner that holds may acquire again
-- REPLY GRANTED token limit    limit: the number of parts, if it differs from the one in the share; otherwise missing
-- REPLY WAITING left position limit  ms until the first of the holders' leases ends; the place in the queue, 1 for the next; limit as in GRANTED
-- REPLY BUSY left foreign      the claim does not wait; ms until the last holder's lease ends, negative: never; foreign: 1 if another library holds
-- REPLY QUEUE_FULL length      `length` claims wait already
-- REPLY WOULD_DEADLOCK         the claim would wait for another claim of its own owner
-- REPLY OVER_LIMIT limit       the claim asks for more parts than there are
-- REPLY MORE                   one run does not finish the work: run it again at once
-- REPLY REVOKED                the claim holds but is revoked; its lease is not extended
-- REPLY GONE                   this claim was released and must not hold again, or does not hold with that token
-- REPLY WRONG_KIND             the name holds data of another kind, or one of its keys has another type
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter that is granted

local claim, share, ttl = ARGV[2], ARGV[7], tonumber(ARGV[3])
local name = { main = KEYS[1], counter = KEYS[2], holders = KEYS[4], queue = KEYS[5], state = KEYS[6] }
name.floor, name.kind, name.waiter_ttl, name.channel = ARGV[4], ARGV[6], tonumber(ARGV[9]), ARGV[10]
name.reenters = ARGV[12] == '1'
local usable, fault = read_for(name, ARGV[5] ~= '0') -- A repeat is a renewal, and is read like one.
if fault then
  return fault
end
if not usable and name.foreign and share == 'x' and not name.reenters then
  return { ARGV[1], 'BUSY', redis.call('PTTL', KEYS[1]), 1 }
elseif not usable then
  -- The name belongs to another kind, but all of its claims may be dead: MORE if some have still to be removed.
  return { ARGV[1], name.more and 'MORE' or 'WRONG_KIND' }
end
local ends, flag = lease_of(name, share, claim)
if ends > name.now and flag == 'r' then
  return { ARGV[1], 'REVOKED' }
end
local holds = ends > name.now and flag == ''
if redis.call('EXISTS', KEYS[3]) == 1 or ARGV[5] ~= '0' and not (holds and token_of(name, share, claim) == ARGV[5]) then
  settle(name)
  return { ARGV[1], 'GONE' }
end
if select(2, advance(name)) then
  ends, flag = lease_of(name, share, claim)
end
if not holds and is_over_limit(name, share) then
  settle(name)
  return { ARGV[1], 'OVER_LIMIT', name.limit }
end
local granted, waits_for_itself = enter(name, share, claim, ttl, ARGV[8] == '1', ends, flag)
if not granted and not waits_for_itself and not name.more and ARGV[11] ~= 'poll' and ARGV[11] ~= '0' then
  return stand(name, share, claim, ARGV[1], tonumber(ARGV[11]))
end
if ARGV[11] == 'poll' and not granted then
  ask_for_wake(name)
end
settle(name)
if granted then
  return { ARGV[1], 'GRANTED', granted, other_limit(name, share) }
end
-- MORE comes before any refusal: some of the claims that refuse this one may be dead.
if name.more then
  return { ARGV[1], 'MORE' }
end
return { ARGV[1], waits_for_itself and 'WOULD_DEADLOCK' or 'BUSY', not waits_for_itself and left_of(name) or nil }
