-- lock/release: the claim goes, whether it holds or waits: nobody outside can know which. Then it is the turn of those in front of the
-- queue who fit. A claim that leaves before its shortest time to hold is over stands for the rest as one that has left. While an acquire
-- or a conversion of the claim is unanswered the release makes a tombstone, so that it, executed late, creates nothing.
--
-- KEYS[1] main            the value of one claim, or a marker, see shared/value
-- KEYS[2] counter         the last token drawn by any name of the slot
-- KEYS[3] tombstone       its life is the last time a request of this claim may arrive
-- KEYS[4] holders         ZSET: <flag><share>:<claim> -> server ms of the end of its lease
-- KEYS[5] queue           ZSET: <share>:<claim> -> its ticket
-- KEYS[6] state           HASH: what else is known of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] kind
-- ARGV[4] share           x: all of the name; a number: so many parts
-- ARGV[5] channel         where those who poll listen; of a kind with a queue, what the channels of grants begin with
-- ARGV[6] cooldown        for how long it stands as one that has left, ms
-- ARGV[7] tombstone_ttl   of the tombstone, ms; 0: every acquire was answered, no tombstone
-- ARGV[8] floor           the largest token the caller has seen
-- ARGV[9] waiter_ttl      for how long a waiter is alive without a word, ms
-- ARGV[10] reenters       1 if an owner that holds is let in again
-- REPLY RELEASED told holds  told: 1 unless the server refused a message; holds: how many claims the owner still has
-- REPLY COOLDOWN told left   it was the owner's last, and stands as one that has left for `left` ms
-- REPLY MORE                 the claim is gone, others are not yet served: to be run again at once, which answers NOT_HELD or COOLDOWN
-- REPLY NOT_HELD holds       nothing was there to release, or its lease had ended
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter whose turn it is; or channel: free, or kept, if somebody polls

local claim, share = ARGV[2], ARGV[4]
local name = { main = KEYS[1], counter = KEYS[2], holders = KEYS[4], queue = KEYS[5], state = KEYS[6] }
name.kind, name.channel, name.floor, name.waiter_ttl = ARGV[3], ARGV[5], ARGV[8], tonumber(ARGV[9])
name.reenters = ARGV[10] == '1'
-- Begins with a write that cannot grow: a full server lets the writes behind it pass.
local readable, fault = read_name(name, true)
if fault then
  return fault
end
if ARGV[7] ~= '0' then
  redis.call('SET', KEYS[3], '1', 'PX', ARGV[7])
end
if not readable or name.found ~= name.kind then
  return { ARGV[1], 'NOT_HELD', 0 }
end
local gone, left, told, holds = false, 0, '1', 0
if name.alone then
  gone, left, told = leave_alone(KEYS[1], name.alone.value, claim, ARGV[6], ARGV[5])
  holds = not gone and name.alone.flag ~= 'c' and name.reenters and owner_of(name.alone.claim) == owner_of(claim) and 1 or 0
else
  gone, left = dismiss(name, share, claim, tonumber(ARGV[6]))
  -- A holder is in no queue.
  gone = gone or name.waits and withdraw(name, member_of('', share, claim)) > 0
  holds = select(2, beside(name, claim)) + (name.reenters and name.owner == owner_of(claim) and name.live or 0)
  told = advance(name)
  if settle(name) == '0' then
    told = '0'
  end
end
if name.more then
  return { ARGV[1], 'MORE' }
end
if left ~= 0 and holds == 0 then
  return { ARGV[1], 'COOLDOWN', told, left }
end
if gone then
  return { ARGV[1], 'RELEASED', told, holds }
end
return { ARGV[1], 'NOT_HELD', holds }
