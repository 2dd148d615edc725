-- redisson/rwlock/inspect: reads who holds a name of Redisson's RReadWriteLock, for people. Changes nothing.
--
-- KEYS[1] main     Redisson's HASH: the owners that hold, see shared/redisson_rwlock
-- KEYS[2] claims   HASH: the data about our claims
-- ARGV[1] request  echoed
-- ARGV[2] channel  on which waiters listen, Redisson's clients too
-- ARGV[3] kind
-- REPLY FOUND kind token waiters claims limit  our claims, and the owner of each other hold with, as the fifth field, how often it holds beside our
--                                              claims; token: empty if none of ours holds in the name's mode, or if those that do have several tokens
-- REPLY FREE waiters  nobody holds; `waiters` clients listen for a wake; negative: the server does not say
-- REPLY WRONG_KIND    the name holds something else
-- PUBLISH nothing

local fault = select(2, read_field(KEYS[1], 'none', true))
if fault then
  return fault
end
local type_of, counts, known = redis.call('TYPE', KEYS[1]).ok, {}, {}
if type_of == 'none' then
  return { ARGV[1], 'FREE', listeners(ARGV[2]) }
end
if type_of ~= 'hash' or not redis.call('HGET', KEYS[1], 'mode') or not are_claims(KEYS[2]) then
  return { ARGV[1], 'WRONG_KIND' }
end
for into, key in pairs({ [counts] = KEYS[1], [known] = KEYS[2] }) do
  local pairs_of = redis.call('HGETALL', key)
  for i = 1, #pairs_of, 2 do
    into[pairs_of[i]] = pairs_of[i + 1]
  end
end
local found, token, left = {}, nil, redis.call('PTTL', KEYS[1])
for claim, hold in pairs(known) do
  for _, mode in ipairs(client_of(claim) and { 'read', 'write' } or {}) do
    local field = field_of(owner_of(claim), mode)
    if counts[field] and known[field] == hold then
      local its, revoked = token_of(hold)
      if mode == counts.mode then -- None if those that read have several.
        token = (token or its) == its and its or ''
      end
      counts[field] = (tonumber(counts[field]) or 1) - 1
      found[#found + 1] = { claim, left, revoked == ' r' and 'revoked' or 'held', mode == 'write' and 'x' or '1', 1 }
    end
  end
end
for field, count in pairs(counts) do
  local owner = string.match(field, '^(.*):write$')
  if field ~= 'mode' and count ~= 0 then
    local writes = owner or client_of(field) and counts.mode == 'write'
    local state, holds = client_of(field) and 'cooldown' or 'held', not client_of(field) and tonumber(count) or nil
    found[#found + 1] = { owner or field, left, state, writes and 'x' or '1', holds }
  end
end
return { ARGV[1], 'FOUND', ARGV[3], token or '', listeners(ARGV[2]), found, 0 }
