-- shared/any: reads every claim that stands under a name, whatever its kind, for people; those of other libraries too.

-- Whether a lock of Redisson lies there, which read_standing took for another type: a HASH with `<uuid>:<thread id>` of whoever holds, behind
-- it `:write` where a read-write lock is written, and `mode` of that. The second value is an error of the server. A large one is somebody's data.
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

-- Whether people call a claim so: another library's may be any bytes, which are shown and named as two hex digits each.
local function is_called(claim, text)
  local function digits(byte)
    return string.format('%02x', string.byte(byte))
  end
  return claim == text or string.format('hex:%s', (string.gsub(claim, '.', digits))) == text
end

-- The claims that stand under `name`, which has been read: each with its id, the ms left to it (negative: without an end), what has
-- become of it: held, revoked or cooldown, and its share. Another library's value is a claim that has all of the name.
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
  local members = name.inflated and redis.call('ZRANGE', name.holders, 0, -1, 'WITHSCORES') or {}
  for i = 1, #members, 2 do
    local flag, share, claim = parts_of(members[i])
    local left = tonumber(members[i + 1]) - name.now
    if share and left > 0 then
      claims[#claims + 1] = { claim, left, states[flag], share }
    end
  end
  return claims
end
