-- redisson/rwlock/revoke: asks our claims that hold a name of Redisson's RReadWriteLock to release it. They hold until they are released or their
-- leases end, and the leases are no longer extended. The client of each claim is told; a repeat tells it again. Redisson cannot revoke, so its
-- holders cannot be asked.
--
-- KEYS[1] main     Redisson's HASH: the owners that hold, see shared/redisson_rwlock
-- KEYS[2] claims   HASH: the data about our claims
-- ARGV[1] request  echoed
-- REPLY TOLD claims  `claims` claims are revoked
-- REPLY FREE         nobody holds
-- REPLY WRONG_KIND   no claim of ours holds: only clients of Redisson's do, the name is in cooldown, or it holds something else
-- PUBLISH channel of each claim's client: revoked <claim>

local fault = select(2, read_field(KEYS[1], 'none', true))
if fault then
  return fault
end
local type_of, told, known = redis.call('TYPE', KEYS[1]).ok, 0, {}
if type_of == 'none' then
  return { ARGV[1], 'FREE' }
end
if type_of ~= 'hash' or not redis.call('HGET', KEYS[1], 'mode') or not are_claims(KEYS[2]) then
  return { ARGV[1], 'WRONG_KIND' }
end
local facts = redis.call('HGETALL', KEYS[2])
for i = 1, #facts, 2 do
  known[facts[i]] = facts[i + 1]
end
for i = 1, #facts, 2 do
  local claim, hold = facts[i], facts[i + 1]
  for _, mode in ipairs(client_of(claim) and { 'read', 'write' } or {}) do
    local field = field_of(owner_of(claim), mode)
    if known[field] == hold and redis.call('HGET', KEYS[1], field) then
      if select(2, token_of(hold)) == '' then
        local revoked = string.format('%s r', hold)
        redis.call('HSET', KEYS[2], claim, revoked, field, revoked)
      end
      tell_client(claim, string.format('revoked %s', claim))
      told = told + 1
    end
  end
end
if told == 0 then
  return { ARGV[1], 'WRONG_KIND' }
end
return { ARGV[1], 'TOLD', told }
