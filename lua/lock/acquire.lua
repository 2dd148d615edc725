-- lock/acquire: lets the claim hold a name that is free, that its share fits beside those who hold, or that its owner holds; or lets it wait.
-- Run again by a holder it arms its lease, by a waiter it keeps the place: nobody passes a waiter alive but an owner that holds.
--
-- KEYS[1] main          the value of one claim, or a marker, see shared/value
-- KEYS[2] counter       the last token drawn by any name of the slot
-- KEYS[3] tombstone     of a release that overtook this claim's acquire
-- KEYS[4] holders       ZSET: <flag><share>:<claim> -> server ms of the end of its lease
-- KEYS[5] queue         ZSET: <share>:<claim> -> its ticket
-- KEYS[6] state         HASH: what else is known of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request       echoed
-- ARGV[2] claim
-- ARGV[3] ttl           of the lease, ms
-- ARGV[4] floor         the largest token the caller has seen
-- ARGV[5] token         of the grant that is repeated, which then creates nothing; 0 if none has been granted
-- ARGV[6] kind
-- ARGV[7] share         x: all of the name; a number: so many parts, and behind a stroke how many there are, if there is an end of them
-- ARGV[8] polled        1 if others of the client poll the name
-- ARGV[9] waiter_ttl    for how long a waiter is alive without a word, ms
-- ARGV[10] channel      where those who poll listen; of a kind with a queue, what the channels of grants begin with
-- ARGV[11] queue_limit  how many may wait; 0: the claim does not wait; -1: any number; poll: it asks again when it is told
-- ARGV[12] reenters     1 if an owner that holds is let in again
-- REPLY GRANTED token limit    limit: how many parts there are, if it is another number than the claim's share says; otherwise missing
-- REPLY WAITING left position limit  ms until the first lease of the holders ends; the place in the queue, 1 for the next
-- REPLY BUSY left foreign      the claim is not to wait; ms until the last lease of the holders ends; negative: without end; foreign: 1 if another library's claim holds
-- REPLY QUEUE_FULL length      so many wait
-- REPLY WOULD_DEADLOCK         it would wait for another claim of its own owner
-- REPLY OVER_LIMIT limit       it asks for more parts than there are
-- REPLY MORE                   the run has done as much as it may for others: to be run again at once
-- REPLY REVOKED                the claim holds, is revoked, and is not armed again
-- REPLY GONE                   this claim has left and must not come back, or it does not hold with that token
-- REPLY WRONG_KIND             the name holds another kind's data, or one of its keys another type
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter whose turn it is

local claim, share, ttl = ARGV[2], ARGV[7], tonumber(ARGV[3])
local name = { main = KEYS[1], counter = KEYS[2], holders = KEYS[4], queue = KEYS[5], state = KEYS[6] }
name.floor, name.kind, name.waiter_ttl, name.channel = ARGV[4], ARGV[6], tonumber(ARGV[9]), ARGV[10]
name.reenters, name.value = ARGV[12] == '1', before and before[1]
local usable, fault = read_for(name, ARGV[5] ~= '0') -- A repeat is a renewal, and is read like one.
if fault then
  return fault
end
if not usable and name.foreign and share == 'x' and not name.reenters then
  return { ARGV[1], 'BUSY', redis.call('PTTL', KEYS[1]), 1 }
elseif not usable then
  -- Of another kind, but those may all have died.
  return { ARGV[1], name.more and 'MORE' or 'WRONG_KIND' }
end
local ends, flag = lease_of(name, share, claim)
if ends > name.now and flag == 'r' then
  return { ARGV[1], 'REVOKED' }
end
local holds = ends > name.now and flag == ''
local has_left = before and before[2] or not before and redis.call('EXISTS', KEYS[3]) == 1
if has_left or ARGV[5] ~= '0' and not (holds and token_of(name, share, claim) == ARGV[5]) then
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
-- Before anything is refused: some of those who are counted may have died.
if name.more then
  return { ARGV[1], 'MORE' }
end
return { ARGV[1], waits_for_itself and 'WOULD_DEADLOCK' or 'BUSY', not waits_for_itself and left_of(name) or nil }
