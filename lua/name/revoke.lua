-- name/revoke: tells who holds a name to let it go. The claims hold until they leave or their leases end, and are renewed no
-- more; each claim's client is told. Run again it tells them again.
--
-- KEYS[1] main     of any kind
-- KEYS[2] readers  of a read-write lock, a ZSET
-- ARGV[1] request  echoed
-- REPLY TOLD claims  so many claims were revoked
-- REPLY FREE         nobody holds
-- REPLY WRONG_KIND   the name holds no lock, or another library's, which has no word for it
-- PUBLISH channel of each claim's client: revoked <claim>

local held, fault = read_any(KEYS[1], KEYS[2], math.floor(server_now() / 1000))
if fault then
  return fault
end
if not held then
  return { ARGV[1], 'WRONG_KIND' }
end
for _, entry in ipairs(held.claims) do
  if not client_of(entry[1]) then
    return { ARGV[1], 'WRONG_KIND' }
  end
end
local told = 0
for _, entry in ipairs(held.claims) do
  local claim, state = entry[1], entry[3]
  if state ~= 'kept' then
    if entry[4] == 'read' then
      redis.call('ZADD', KEYS[2], -1, 'revoked')
    elseif held.kind ~= 'mutex' then
      redis.call('HSET', KEYS[1], 'revoked', '1')
    elseif state == 'held' then
      redis.call('SET', KEYS[1], string.format('revoked:%s', claim), 'KEEPTTL')
    end
    tell_client(claim, string.format('revoked %s', claim))
    told = told + 1
  end
end
if told == 0 then
  return { ARGV[1], 'FREE' }
end
return { ARGV[1], 'TOLD', told }
