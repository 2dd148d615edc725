-- rwlock/acquire: lets the claim write a name that nobody else holds, or read one that nobody else writes and no writer waits
-- for; or lets it wait in turn. An owner that writes gets in again in both modes, one that reads to read. Run again by a
-- holder it arms that claim's lease again, by a waiter it keeps the place.
--
-- KEYS[1] main         HASH of the writer: kind, owner, token, and <claim> -> server ms of the end of its lease
-- KEYS[2] fence        the last token drawn for the name
-- KEYS[3] tombstone    the tombstone of a release that overtook this claim's acquire
-- KEYS[4] queue        ZSET: <claim> -> its ticket
-- KEYS[5] waiters      HASH: <claim> -> <server ms until which it is alive>:<its last executed request>:<mode>; seen, grace
-- KEYS[6] readers      ZSET: <claim> -> server ms of the end of its lease; facts below zero
-- ARGV[1] request      echoed
-- ARGV[2] claim
-- ARGV[3] ttl          of the lease, ms
-- ARGV[4] floor        the largest token the caller has seen
-- ARGV[5] token        of the grant that is repeated, which then creates nothing; 0 if none has been granted
-- ARGV[6] owner        of the claim
-- ARGV[7] waiter_ttl   for how long a waiter is alive without a word, ms
-- ARGV[8] channel      stem of the channels on which clients are told of grants
-- ARGV[9] queue_limit  how many may wait; 0: the claim does not wait; -1: any number
-- ARGV[10] mode        read or write
-- ARGV[11] known       1 if the owner may have other claims, 0 if it was made for this one
-- REPLY GRANTED token
-- REPLY WAITING left position  ms until the last lease of the holders ends; the place in the queue, 1 for the next
-- REPLY BUSY left              the claim is not to wait; left as above
-- REPLY QUEUE_FULL length      so many wait
-- REPLY WOULD_DEADLOCK         it would wait to write for a claim of its own owner that reads
-- REPLY MORE                   the run has done as much as it may for others: to be run again at once
-- REPLY REVOKED                the claim holds, is revoked, and is not armed again
-- REPLY GONE                   this claim has left and must not come back, or it is not alive with that token
-- REPLY WRONG_KIND             the name holds another kind's data, or one of its keys another type
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter whose turn it is

local claim, ttl, mode = ARGV[2], tonumber(ARGV[3]), ARGV[10]
local name = { main = KEYS[1], fence = KEYS[2], queue = KEYS[4], waiters = KEYS[5], readers = KEYS[6] }
name.floor, name.waiter_ttl, name.channel = ARGV[4], tonumber(ARGV[7]), ARGV[8]
-- A repeat is a renewal, and is read like one.
local ours, fault = read_phase(name, server_now(), ARGV[5] ~= '0')
if fault then
  return fault
end
if not ours then
  return { ARGV[1], 'WRONG_KIND' }
end
local ends, token, revoked = lease_of(name, claim, mode)
if ends > name.now and revoked then
  return { ARGV[1], 'REVOKED' }
end
if ARGV[5] ~= '0' and not (ends > name.now and token == ARGV[5]) or redis.call('EXISTS', KEYS[3]) == 1 then
  return { ARGV[1], 'GONE' }
end
advance(name)
ends, token = lease_of(name, claim, mode)
if ends > name.now then
  go_on(name, claim, mode, ttl)
  return { ARGV[1], 'GRANTED', token }
end
local granted, status = enter(name, claim, ARGV[6], mode, ttl, ARGV[11] == '1')
if granted then
  return { ARGV[1], 'GRANTED', granted }
end
if status then
  return { ARGV[1], status }
end
return stand(name, claim, ARGV[1], tonumber(ARGV[9]), left_of(name), mode)
