-- lock/release: removes the claim, whether it holds or waits, because its client cannot know which. Then it grants the name to the first waiters
-- that fit. A claim that is released before its minimum hold time is over stays in cooldown for the rest of it. While an acquire or a conversion
-- of the claim is unanswered, the release leaves a tombstone, so that the earlier request creates nothing if it is executed late.
--
-- KEYS[1] main            the value of one claim, or a marker, see shared/value
-- KEYS[2] counter         the last token drawn by any name of the slot
-- KEYS[3] tombstone       lives for as long as a request of this claim may still arrive
-- KEYS[4] holders         ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[5] queue           ZSET: <share>:<claim> -> its ticket
-- KEYS[6] state           HASH: further data of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] kind
-- ARGV[4] share           x: all of the name; otherwise a number of parts
-- ARGV[5] channel         on which pollers listen; for a kind with a queue, the prefix of the grant channels
-- ARGV[6] cooldown        how long the claim stays in cooldown, ms
-- ARGV[7] tombstone_ttl   ttl of the tombstone, ms; 0: no tombstone, because every acquire was answered
-- ARGV[8] floor           the largest token the caller has seen
-- ARGV[9] waiter_ttl      how long a waiter stays alive without a heartbeat, ms
-- ARGV[10] reenters       1 if an owner that holds may acquire again
-- REPLY RELEASED told holds  told: 0 if the server refused a message, otherwise 1; holds: how many claims the owner still has
-- REPLY COOLDOWN told left   it was the owner's last claim, and is in cooldown for `left` ms
-- REPLY MORE                 the claim is removed, but one run does not finish the work: run it again at once; the claim no longer holds
-- REPLY NOT_HELD holds       there was nothing to release, or the lease had ended
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter that is granted; or channel: free, or kept, if a client polls the name

local claim, share = ARGV[2], ARGV[4]
local name = { main = KEYS[1], counter = KEYS[2], holders = KEYS[4], queue = KEYS[5], state = KEYS[6] }
name.kind, name.channel, name.floor, name.waiter_ttl = ARGV[3], ARGV[5], ARGV[8], tonumber(ARGV[9])
name.reenters = ARGV[10] == '1'
-- Begins with a write that cannot grow, so that a full server accepts the writes that follow.
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
  -- A holder is not in the queue.
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
