-- redisson/revoke: asks our claims that hold a name of Redisson's to release it. They hold until they are released or their leases end, and the
-- leases are no longer extended. The client of each claim is told; a repeat tells it again. Redisson cannot revoke, so its holders cannot be asked.
--
-- KEYS[1] main     Redisson's HASH: the owner that holds, see shared/redisson
-- KEYS[2] claims   HASH: the data about our claims
-- ARGV[1] request  echoed
-- REPLY TOLD claims  `claims` claims are revoked
-- REPLY FREE         nobody holds
-- REPLY WRONG_KIND   no claim of ours holds: a client of Redisson's does, the name is in cooldown, or it holds something else
-- PUBLISH channel of each claim's client: revoked <claim>

local fault = select(2, read_field(KEYS[1], 'none', true))
if fault then
  return fault
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return { ARGV[1], 'FREE' }
end
local owner = kind == 'hash' and is_held(KEYS[1]) and redis.call('HKEYS', KEYS[1])[1]
local told, ours = 0, owner and redis.call('TYPE', KEYS[2]).ok == 'hash' -- A key of another type counts no claim.
for _, claim in ipairs(ours and redis.call('HKEYS', KEYS[2]) or {}) do
  if client_of(claim) and owner_of(claim) == owner then
    tell_client(claim, string.format('revoked %s', claim))
    told = told + 1
  end
end
if told == 0 then
  return { ARGV[1], 'WRONG_KIND' }
end
redis.call('HSET', KEYS[2], 'revoked', '1')
return { ARGV[1], 'TOLD', told }
