-- multi/release: releases claims that hold alone, each under a name of its own, and wakes the pollers of each name. A key of another type makes
-- only its own item NOT_HELD; any other error of the server fails the whole run. While an acquire of a claim is unanswered, its item leaves a
-- tombstone, so that the acquire creates nothing if it is executed late.
--
-- KEYS[2i-1] main         the value of one claim, or a marker, see shared/value
-- KEYS[2i] tombstone      lives for as long as an acquire of this claim may still arrive
-- ARGV[1] request         echoed
-- ARGV[4i-2] claim
-- ARGV[4i-1] channel      on which pollers of the name listen
-- ARGV[4i] cooldown       how long the name stays unavailable, ms
-- ARGV[4i+1] tombstone_ttl  ttl of the tombstone, ms; 0: no tombstone, because every acquire was answered
-- REPLY DONE outcome…   one for each item, in order; a list if it has fields
-- ITEM RELEASED told holds  told: 0 if the server refused the wake, otherwise 1; holds: claims the owner still has: 0
-- ITEM COOLDOWN told left   the claim is released, and the name is free in `left` ms
-- ITEM INFLATED             the name is inflated, and nothing was done: run lock/release for it
-- ITEM NOT_HELD holds       there was nothing to release, or the lease had ended; the tombstone is written all the same
-- PUBLISH channel: free, or kept, if a client polls the name

local reply = { ARGV[1], 'DONE' }
for i = 1, #KEYS / 2 do
  -- As a write at first: a replica refuses it, so its data never looks like "not held".
  local value, fault = read_value(KEYS[2 * i - 1], i == 1)
  if fault then
    return fault
  end
  if is_marker(value) then
    reply[i + 2] = 'INFLATED'
  else
    if ARGV[4 * i + 1] ~= '0' then
      -- The first write cannot grow, so that a full server accepts the writes that follow.
      redis.call('DEL', KEYS[2 * i])
      redis.call('SET', KEYS[2 * i], '1', 'PX', ARGV[4 * i + 1])
    end
    local stood, left, told = leave_alone(KEYS[2 * i - 1], value, ARGV[4 * i - 2], ARGV[4 * i], ARGV[4 * i - 1])
    if not stood then
      reply[i + 2] = { 'NOT_HELD', 0 }
    elseif left ~= 0 then
      reply[i + 2] = { 'COOLDOWN', told, left }
    else
      reply[i + 2] = { 'RELEASED', told, 0 }
    end
  end
end
return reply
