-- multi/release: claims go, each from a name of its own, if nobody else has come to that, and those who poll a name are woken. What
-- one item meets, another type under its key for example, changes nothing for the others. Where an acquire of a claim is unanswered
-- its item makes a tombstone, so that the acquire, executed late, creates nothing.
--
-- KEYS[2i-1] main         the value of one claim, or a marker, see shared/value
-- KEYS[2i] tombstone      its life is the last time an acquire of this claim may arrive
-- ARGV[1] request         echoed
-- ARGV[4i-2] claim
-- ARGV[4i-1] channel      where those who poll the name listen
-- ARGV[4i] cooldown       for how long nobody else may hold, ms
-- ARGV[4i+1] tombstone_ttl  of the tombstone, ms; 0: every acquire was answered, no tombstone
-- REPLY DONE outcome…   one for each item, in order; one with fields is a list
-- ITEM RELEASED told holds  told: 1 unless the server refused the wake; holds: how many claims its owner still has: none
-- ITEM COOLDOWN told left   the claim is gone, and the name is free in `left` ms
-- ITEM INFLATED             the name is inflated, and nothing was done: lock/release is to be run for it
-- ITEM NOT_HELD holds       nothing was there to release, or its lease had ended; a tombstone stands all the same
-- PUBLISH channel: free, or kept, if somebody polls

local reply, mains = { ARGV[1], 'DONE' }, {}
for i = 1, #KEYS / 2 do
  mains[i] = KEYS[2 * i - 1]
end
-- First a read that a replica refuses, so that what it has never looks like "not held".
local _, fault = read_value(mains[1], AS_A_WRITE)
if fault then
  return fault
end
local values = redis.call('MGET', unpack(mains))
for i, main in ipairs(mains) do
  if is_marker(values[i]) then
    reply[i + 2] = 'INFLATED'
  else
    if ARGV[4 * i + 1] ~= '0' then
      -- First a write that cannot grow: a full server lets the writes behind it pass.
      redis.call('DEL', KEYS[2 * i])
      redis.call('SET', KEYS[2 * i], '1', 'PX', ARGV[4 * i + 1])
    end
    local stood, left, told = leave_alone(main, values[i], ARGV[4 * i - 2], ARGV[4 * i], ARGV[4 * i - 1])
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
