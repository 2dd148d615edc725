-- shared/any: reads what a name holds, whatever its kind.

-- What is at `key` as of `now` ms: `kind`, `token` if the key tells it, and `claims`, each with its id, the ms left to it
-- (negative: without end) and what has become of it: held, revoked or kept. No claims: the name is free. nil: the key
-- holds no lock. The second value is an error of the server, to be returned as it is. Begins with a write that changes
-- nothing: a replica refuses it instead of answering from what it has.
local function read_any(key, now)
  local refused = redis.pcall('HDEL', key, 'lockkeeper.no-field')
  if type(refused) == 'table' and not string.find(refused.err, 'WRONGTYPE', 1, true) then
    return nil, refused
  end
  local shape = redis.call('TYPE', key).ok
  if shape == 'none' then
    return { claims = {} }
  end
  if shape == 'string' then
    local claim, state = claim_in(redis.call('GET', key))
    return { kind = 'mutex', claims = { { claim, redis.call('PTTL', key), state } } }
  end
  local held = shape == 'hash' and read_holders(key, ANY_KIND, now)
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
  return any
end

-- Tells the client of `claim`, if it is a claim of ours: others have no such channel.
local function tell_client(claim, message)
  local client = client_of(claim)
  if client then
    wake(string.format('lockkeeper.client:%s', client), message)
  end
end
