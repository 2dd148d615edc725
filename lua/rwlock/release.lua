-- rwlock/release: the claim goes, whether it holds or waits: nobody outside can know which. Then it is the turn of those in front
-- of the queue who may hold. A claim that leaves before its shortest time to hold is over keeps the name for the rest, a
-- writer from everybody, a reader from writers. While an acquire or a conversion of the claim is unanswered the release makes a tombstone,
-- so that it, executed late, creates nothing.
--
-- KEYS[1] main           HASH of the writer: kind, owner, token, and <claim> -> server ms of the end of its lease
-- KEYS[2] fence          the last token drawn for the name
-- KEYS[3] tombstone      the tombstone; its life is the last time an acquire of this claim may arrive
-- KEYS[4] queue          ZSET: <claim> -> its ticket
-- KEYS[5] waiters        HASH: <claim> -> <server ms until which it is alive>:<its last executed request>:<mode>; seen, grace
-- KEYS[6] readers        ZSET: <claim> -> server ms of the end of its lease; facts below zero
-- ARGV[1] request        echoed
-- ARGV[2] claim
-- ARGV[3] channel        stem of the channels on which clients are told of grants
-- ARGV[4] cooldown       for how long the name is kept, ms
-- ARGV[5] tombstone_ttl  of the tombstone, ms; 0: every acquire was answered, no tombstone
-- ARGV[6] floor          the largest token the caller has seen
-- ARGV[7] waiter_ttl     for how long a waiter is alive without a word, ms
-- ARGV[8] mode           read or write
-- ARGV[9] known          1 if the owner may have other claims, 0 if it was made for this one
-- REPLY RELEASED told holds  told: 1 unless the server refused to tell the next holders; holds: how many claims its owner has left
-- REPLY COOLDOWN told left   the name is kept for `left` ms
-- REPLY MORE                 the claim is gone, others are not yet served: to be run again at once, which answers NOT_HELD or COOLDOWN
-- REPLY NOT_HELD holds       nothing was there to release, or its lease had ended
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter whose turn it is

local claim, keep = ARGV[2], tonumber(ARGV[4])
local name = { main = KEYS[1], fence = KEYS[2], queue = KEYS[4], waiters = KEYS[5], readers = KEYS[6] }
name.channel, name.floor, name.waiter_ttl = ARGV[3], ARGV[6], tonumber(ARGV[7])
-- Begins with a write that cannot grow: a full server lets the writes behind it pass.
local ours, fault = read_phase(name, server_now(), true)
if fault then
  return fault
end
if ARGV[5] ~= '0' then
  redis.call('SET', KEYS[3], '1', 'PX', ARGV[5])
end
local alive, holds, left = false, 0, 0
if ours and ARGV[8] == 'write' then
  alive, holds, left = take_from(name.held, name.main, claim, name.now, keep)
elseif ours then
  alive, left = stop_reading(name, claim, keep)
  holds = name.held.owner == owner_of(claim) and name.held.alive or 0
end
if ours and ARGV[9] == '1' then
  holds = holds + #reads_of(name, owner_of(claim))
end
-- A holder is in no queue.
local waited = not alive and name.waits and withdraw(name, claim) > 0
local told = advance(name)
if name.more then
  return { ARGV[1], 'MORE' }
end
if left > 0 then
  return { ARGV[1], 'COOLDOWN', told, left }
end
if alive or waited then
  return { ARGV[1], 'RELEASED', told, holds }
end
return { ARGV[1], 'NOT_HELD', holds }
