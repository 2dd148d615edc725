-- multi/release: claims go, each from a name of its own, a mutex or a re-entrant lock, and the waiters of each name are woken. What
-- one item meets, another type under its key for example, changes nothing for the others. Where an acquire of a claim is
-- unanswered its item makes a tombstone, so that the acquire, executed late, creates nothing.
--
-- KEYS[2i-1] main         the holder's claim, a string; or a HASH: kind, owner, token, and <claim> -> server ms of its end
-- KEYS[2i] tombstone      the tombstone; its life is the last time an acquire of this claim may arrive
-- ARGV[1] request         echoed
-- ARGV[5i-3] claim
-- ARGV[5i-2] channel      where waiters of the name listen
-- ARGV[5i-1] cooldown     for how long nobody else may hold, ms
-- ARGV[5i] tombstone_ttl  of the tombstone, ms; 0: every acquire was answered, no tombstone
-- ARGV[5i+1] kind         mutex or reentrant
-- REPLY DONE outcome…   one for each item, in order; one with fields is a list
-- ITEM RELEASED told holds  told: 1 unless the server refused the wake; holds: how many claims its owner still has
-- ITEM COOLDOWN told left   the claim is gone, and the name is free in `left` ms
-- ITEM NOT_HELD holds       nothing was there to release, or its lease had ended; a tombstone stands all the same
-- PUBLISH channel: free, or kept

local reply = { ARGV[1], 'DONE' }
local now = math.floor(server_now() / 1000)
for i = 1, #KEYS / 2 do
  local claim, channel, keep = ARGV[5 * i - 3], ARGV[5 * i - 2], tonumber(ARGV[5 * i - 1])
  if ARGV[5 * i] ~= '0' then
    -- First a write that cannot grow: a full server lets the writes behind it pass.
    redis.call('DEL', KEYS[2 * i])
    redis.call('SET', KEYS[2 * i], '1', 'PX', ARGV[5 * i])
  end
  local alive, holds, left, told, fault = false, 0, 0, '1', nil
  if ARGV[5 * i + 1] == 'mutex' then
    alive, left, told, fault = take_text(KEYS[2 * i - 1], claim, keep, channel)
  else
    alive, holds, left, told, fault = take_out(KEYS[2 * i - 1], 'reentrant', claim, now, keep, channel)
  end
  if fault then
    return fault
  end
  if not alive then
    reply[i + 2] = { 'NOT_HELD', holds }
  elseif left > 0 then
    reply[i + 2] = { 'COOLDOWN', told, left }
  else
    reply[i + 2] = { 'RELEASED', told, holds }
  end
end
return reply
