-- multi/release: claims go, each from a name of its own, of a kind whose claims take all of it and do not queue, and those who poll a
-- name are woken. What one item meets, another type under its key for example, changes nothing for the others. Where an acquire
-- of a claim is unanswered its item makes a tombstone, so that the acquire, executed late, creates nothing.
--
-- KEYS[5i-4] main         the value of one claim, or a marker, see shared/value
-- KEYS[5i-3] tombstone    its life is the last time an acquire of this claim may arrive
-- KEYS[5i-2] holders      ZSET: <flag><share>:<claim> -> server ms of the end of its lease
-- KEYS[5i-1] queue        ZSET: <share>:<claim> -> its ticket
-- KEYS[5i] state          HASH: what else is known of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request           echoed
-- ARGV[6i-4] claim
-- ARGV[6i-3] channel        where those who poll the name listen
-- ARGV[6i-2] cooldown       for how long nobody else may hold, ms
-- ARGV[6i-1] tombstone_ttl  of the tombstone, ms; 0: every acquire was answered, no tombstone
-- ARGV[6i] kind
-- ARGV[6i+1] reenters       1 if an owner that holds is let in again
-- REPLY DONE outcome…   one for each item, in order; one with fields is a list
-- ITEM RELEASED told holds  told: 1 unless the server refused the wake; holds: how many claims its owner still has
-- ITEM COOLDOWN told left   the claim is gone, and the name is free in `left` ms
-- ITEM NOT_HELD holds       nothing was there to release, or its lease had ended; a tombstone stands all the same
-- PUBLISH channel: free, or kept, if somebody polls

local reply = { ARGV[1], 'DONE' }
for i = 1, #KEYS / 5 do
  local claim, cooldown = ARGV[6 * i - 4], ARGV[6 * i - 2]
  local name = { main = KEYS[5 * i - 4], holders = KEYS[5 * i - 2], queue = KEYS[5 * i - 1], state = KEYS[5 * i] }
  name.channel, name.kind, name.reenters = ARGV[6 * i - 3], ARGV[6 * i], ARGV[6 * i + 1] == '1'
  if ARGV[6 * i - 1] ~= '0' then
    -- First a write that cannot grow: a full server lets the writes behind it pass.
    redis.call('DEL', KEYS[5 * i - 3])
    redis.call('SET', KEYS[5 * i - 3], '1', 'PX', ARGV[6 * i - 1])
  end
  local readable, fault = read_standing(name, true)
  if fault then
    return fault
  end
  local gone, left, told, holds = false, 0, '1', 0
  if readable and name.inflated then
    bury(name)
  end
  if readable and name.found == name.kind and name.alone then
    gone, left, told = leave_alone(name.main, name.alone.value, claim, cooldown, name.channel)
    holds = not gone and name.reenters and name.owner == owner_of(claim) and 1 or 0
  elseif readable and name.found == name.kind then
    gone, left = dismiss(name, 'x', claim, tonumber(cooldown))
    holds = name.reenters and name.owner == owner_of(claim) and name.live or 0
    told = settle(name)
  end
  if not gone then
    reply[i + 2] = { 'NOT_HELD', holds }
  elseif left ~= 0 and holds == 0 then
    reply[i + 2] = { 'COOLDOWN', told, left }
  else
    reply[i + 2] = { 'RELEASED', told, holds }
  end
end
return reply
