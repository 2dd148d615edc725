-- redisson/rwlock/free: takes a hold of a name of Redisson's RReadWriteLock by force, whether or not the holder is told: that of one claim of ours, or
-- all holds of one owner. Other holders go on. The clients of our claims are told, and waiters are woken if they may hold now.
--
-- KEYS[1] main     Redisson's HASH: the owners that hold, see shared/redisson_rwlock
-- KEYS[2] claims   HASH: the data about our claims
-- ARGV[1] request  echoed
-- ARGV[2] claim    as redisson/rwlock/inspect shows it: a claim, or an owner
-- ARGV[3] channel  on which waiters listen, Redisson's clients too
-- REPLY RELEASED told holds  told: 0 if the server refused a message, otherwise 1; holds: how often the owner still holds
-- REPLY NOT_HELD holds       neither a claim nor an owner of that id holds; holds: 0
-- REPLY WRONG_KIND           the name holds something else
-- PUBLISH channel: 1, if waiters may hold now; channel of each claim's client: gone <claim>

local fault = select(2, read_field(KEYS[1], 'none', true))
if fault then
  return fault
end
local type_of, who, owner = redis.call('TYPE', KEYS[1]).ok, ARGV[2], owner_of(ARGV[2])
if type_of == 'none' then
  return { ARGV[1], 'NOT_HELD', 0 }
end
if type_of ~= 'hash' or not redis.call('HGET', KEYS[1], 'mode') or not are_claims(KEYS[2]) then
  return { ARGV[1], 'WRONG_KIND' }
end
local facts, freed = redis.call('HGETALL', KEYS[2]), client_of(who) and redis.call('HDEL', KEYS[1], who) == 1
for _, mode in ipairs({ 'read', 'write' }) do
  local field = field_of(owner, mode)
  local hold, left = redis.call('HGET', KEYS[2], field), redis.call('HGET', KEYS[1], field)
  for i = 1, left and #facts or 0, 2 do
    local claim = facts[i]
    if client_of(claim) and hold == facts[i + 1] and owner_of(claim) == owner and (claim == who or owner == who) then
      redis.call('HDEL', KEYS[2], claim)
      tell_client(claim, string.format('gone %s', claim))
      left, freed = redis.call('HINCRBY', KEYS[1], field, -1), true
    end
  end
  if left and (owner == who or tonumber(left) == 0) then
    redis.call('HDEL', KEYS[1], field)
    redis.call('HDEL', KEYS[2], field)
    freed = true
  end
end
if not freed then
  return { ARGV[1], 'NOT_HELD', 0 }
end
local holds = holds_of(KEYS[1], owner)
if redis.call('HLEN', KEYS[1]) == 1 then
  redis.call('DEL', KEYS[1], KEYS[2])
elseif redis.call('HGET', KEYS[1], 'mode') == 'write' and not redis.call('HGET', KEYS[1], field_of(owner, 'write')) then
  redis.call('HSET', KEYS[1], 'mode', 'read')
else
  return { ARGV[1], 'RELEASED', '1', holds }
end
return { ARGV[1], 'RELEASED', wake(ARGV[3], '1'), holds }
