-- shared/any: reads what a name holds, whatever its kind.

-- Adds to `any` those who read a name together, see shared/readers; its token, if nobody has another.
local function add_readers(any, readers, now)
  local members = redis.pcall('ZRANGE', readers, 0, -1, 'WITHSCORES')
  local state, token = 'held', nil
  for i = 1, #members, 2 do
    local member, score = members[i], tonumber(members[i + 1])
    local left = string.match(member, '^kept:(.*)')
    if member == 'token' then
      token = string.format('%.0f', -score)
    elseif member == 'revoked' then
      state = 'revoked'
    elseif score > now then
      any.kind = 'rwlock'
      any.claims[#any.claims + 1] = { left or member, score - now, left and 'kept' or state, 'read' }
    end
  end
  any.token = any.token or token
end

-- What is at `key` and `readers` as of `now` ms: `kind`, `token` if a key tells it, and `claims`, each with its id, the ms left
-- to it (negative: without end), what has become of it: held, revoked or kept, and `read` if it only reads. No claims: the
-- name is free. nil: the key holds no lock. The second value is an error of the server, to be returned as it is. Begins with a
-- write that changes nothing: a replica refuses it instead of answering from what it has.
local function read_any(key, readers, now)
  local refused = redis.pcall('HDEL', key, 'lockkeeper.no-field')
  if type(refused) == 'table' and not string.find(refused.err, 'WRONGTYPE', 1, true) then
    return nil, refused
  end
  local shape = redis.call('TYPE', key).ok
  if shape == 'string' then
    local claim, state = claim_in(redis.call('GET', key))
    return { kind = 'mutex', claims = { { claim, redis.call('PTTL', key), state } } }
  end
  local held = (shape == 'hash' or shape == 'none') and read_holders(key, ANY_KIND, now)
  if not held then
    return nil
  end
  local any = { kind = held.kind, token = held.token, claims = {} }
  for claim, ends in pairs(held.leases) do
    any.claims[#any.claims + 1] = ends > now and { claim, ends - now, held.revoked and 'revoked' or 'held' } or nil
  end
  for claim, ends in pairs(held.kept) do
    any.claims[#any.claims + 1] = ends > now and { claim, ends - now, 'kept' } or nil
  end
  if not held.kind or held.kind == 'rwlock' then
    add_readers(any, readers, now)
  end
  return any
end
