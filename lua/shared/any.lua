-- shared/any: reads every claim under a name for people, whatever its kind, including those of other libraries.

-- Whether the main key, which read_standing found to have another type, is a lock of Redisson: a HASH with a field `<uuid>:<thread id>` for each
-- holder, followed by `:write` for a writer, and a field `mode` for a read-write lock. A HASH of 1,000 fields or more is taken for data. The second
-- value is any other error of the server.
local function read_redisson(name)
  local length = redis.pcall('HLEN', name.main)
  if type(length) ~= 'number' then
    return false, not string.find(length.err, 'WRONGTYPE', 1, true) and length or nil
  end
  local fields = length < 1000 and redis.call('HGETALL', name.main) or {}
  local holders, reads = {}, false
  for i = 1, #fields, 2 do
    if fields[i] == 'mode' then
      reads = fields[i + 1] == 'read'
    elseif string.find(fields[i], '^%x+%-%x+%-%x+%-%x+%-%x+:%d+:?%l*$') then
      holders[#holders + 1] = fields[i]
    else
      return false
    end
  end
  name.found, name.redisson, name.share = 'redisson', holders, reads and '1' or 'x'
  return #holders > 0
end

-- Whether `text` names the claim: a claim of another library may contain any bytes, and is then shown and named as two hex digits each.
local function is_called(claim, text)
  local function digits(byte)
    return string.format('%02x', string.byte(byte))
  end
  return claim == text or string.format('hex:%s', (string.gsub(claim, '.', digits))) == text
end

-- The claims under `name`, which has been read: for each its id, the ms left (negative: without end), its state (held, revoked or
-- cooldown) and its share. Another library's value counts as a claim of all of the name.
local function standing(name)
  local claims, states = {}, { [''] = 'held', r = 'revoked', c = 'cooldown' }
  local alone = name.alone
  for _, holder in ipairs(name.redisson or {}) do
    claims[#claims + 1] = { holder, redis.call('PTTL', name.main), 'held', name.share }
  end
  if name.foreign then
    claims[1] = { name.foreign, redis.call('PTTL', name.main), 'held', 'x' }
  elseif alone then
    claims[1] = { alone.claim, alone.left, states[alone.flag], alone.share }
  end
  local members = name.inflated and redis.call('ZRANGE', name.holders, '0', '-1', 'WITHSCORES') or {}
  for i = 1, #members, 2 do
    local flag, share, claim = parts_of(members[i])
    local left = tonumber(members[i + 1]) - name.now
    if share and left > 0 then
      claims[#claims + 1] = { claim, left, states[flag], share }
    end
  end
  return claims
end
