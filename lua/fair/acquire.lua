-- fair/acquire: makes the claim a holder of a name that is free or whose holder is its own owner, or lets it wait in turn.
-- Run again by a holder it arms that claim's lease again, by a waiter it keeps the place: nobody passes a waiter alive but
-- the owner that holds.
--
-- KEYS[1] main         HASH: kind, owner, token, and <claim> -> server ms of the end of its lease
-- KEYS[2] fence        the last token drawn for the name
-- KEYS[3] tombstone    the tombstone of a release that overtook this claim's acquire
-- KEYS[4] queue        ZSET: <claim> -> its ticket
-- KEYS[5] waiters      HASH: <claim> -> <server ms until which it is alive>:<its last executed request>; seen, grace
-- ARGV[1] request      echoed
-- ARGV[2] claim
-- ARGV[3] ttl          of the lease, ms
-- ARGV[4] floor        the largest token the caller has seen
-- ARGV[5] token        of the grant that is repeated, which then creates nothing; 0 if none has been granted
-- ARGV[6] owner        of the claim
-- ARGV[7] waiter_ttl   for how long a waiter is alive without a word, ms
-- ARGV[8] channel      stem of the channels on which clients are told of grants
-- ARGV[9] queue_limit  how many may wait; 0: the claim does not wait; -1: any number
-- REPLY GRANTED token
-- REPLY WAITING left position  ms until the last lease of the holder ends; the place in the queue, 1 for the next
-- REPLY BUSY left              the claim is not to wait; left as above
-- REPLY QUEUE_FULL length      so many wait
-- REPLY MORE                   nothing but dead waiters dropped, and there are more: to be run again at once
-- REPLY REVOKED                the claim holds, is revoked, and is not armed again
-- REPLY GONE                   this claim has left and must not come back, or it is not alive with that token
-- REPLY WRONG_KIND             the name holds another kind's data, or its queue or fence another type
-- PUBLISH channel:<client>: G <claim> <token> <request>, to a waiter whose turn it is

local claim, ttl = ARGV[2], tonumber(ARGV[3])
local name = { kind = 'fair', main = KEYS[1], fence = KEYS[2], queue = KEYS[4], waiters = KEYS[5] }
name.floor, name.waiter_ttl, name.channel = ARGV[4], tonumber(ARGV[7]), ARGV[8]
-- A repeat is a renewal, and is read like one.
local fault = read_name(name, server_now(), ARGV[5] ~= '0')
if fault then
  return fault
end
if not name.held then
  return { ARGV[1], 'WRONG_KIND' }
end
local holds = (name.held.leases[claim] or 0) > name.now
if holds and name.held.revoked then
  return { ARGV[1], 'REVOKED' }
end
if ARGV[5] ~= '0' and not (holds and name.held.token == ARGV[5]) or redis.call('EXISTS', KEYS[3]) == 1 then
  return { ARGV[1], 'GONE' }
end
advance(name)
local held = name.held
if (held.leases[claim] or 0) > name.now or lets_in(name, ARGV[6]) then
  hold(name, claim, ttl)
  return { ARGV[1], 'GRANTED', held.token }
end
if not name.queued or not name.fenced then
  return { ARGV[1], 'WRONG_KIND' }
end
if name.more then
  return { ARGV[1], 'MORE' }
end
if not held.taken then
  grant(name, claim, ARGV[6], ttl)
  return { ARGV[1], 'GRANTED', name.held.token }
end
return stand(name, claim, ARGV[1], tonumber(ARGV[9]), held.ends - name.now)
