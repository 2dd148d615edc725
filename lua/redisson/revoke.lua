-- redisson/revoke: tells the claims that hold a name of Redisson's to let it go. They hold until they leave or their leases end, and are renewed
-- no more; their clients are told. Redisson has no word for it, so its own holders cannot be told. Run again it tells them again.
--
-- KEYS[1] main     the owner that holds, as Redisson writes it, see shared/redisson
-- KEYS[2] claims   what is known of our claims
-- ARGV[1] request  echoed
-- REPLY TOLD claims  so many claims were revoked
-- REPLY FREE         nobody holds
-- REPLY WRONG_KIND   a client of Redisson's holds, or the name holds something else
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
local told = 0
for _, claim in ipairs(owner and redis.call('HKEYS', KEYS[2]) or {}) do
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
