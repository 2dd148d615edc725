-- shared/value: the value of a name's main key, always a string; any other value belongs to another library.
--
-- `<kind> <share> <claim> <token><flags>`: one claim holds, alone under the name. The key's ttl is its lease. A share is `x` for all of
-- the name, or the number of parts that the claim takes beside others: `2`, or `2/8` if the client knows a limit of 8 parts.
-- The flags: `r`, the claim is revoked; `c`, it was released, and the name is in cooldown; `p`, a client polls the name and wants to be
-- woken when it is free.
--
-- `<kind> * …`: the name is inflated, see shared/standing.

-- A read that counts as a write and changes nothing: a replica refuses it instead of answering from its own data, and a
-- server whose memory is full accepts the writes that follow.
local AS_A_WRITE = 'GETEX'

-- The least time for which an inflated name outlives its last change, ms: longer than a failover takes, so that waiters keep their
-- order. Keys get twice that time, so that not every script must extend them.
local MEMORY = 600000

-- The string at `key`, read by `command`, or false if there is none; nil if the key has another type. The second value
-- is any other error of the server, to be returned as it is: it must not look like "not held".
local function read_value(key, command)
  local value = redis.pcall(command, key)
  if type(value) ~= 'table' then
    return value
  end
  if string.find(value.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  return nil, value
end

-- How many parts a share takes; nil if it takes all of the name, or is invalid.
local function weight_of(share)
  return tonumber(string.match(share or '', '^(%d+)/?%d*$') or '')
end

-- The limit in a share; nil if there is none.
local function limit_of(share)
  return tonumber(string.match(share or '', '^%d+/(%d+)$') or '')
end

-- The kind, share, claim, token and flags of a `value` of one claim; nil for any other value.
local function claim_of(value)
  local kind, share, claim, token, flags = string.match(value or '', '^(%l+) ([x%d/]+) (%S+) (%d+)(%l*)$')
  if share == 'x' or weight_of(share) then
    return kind, share, claim, token, flags
  end
end

-- The value of a claim, with these flags.
local function value_of(kind, share, claim, token, flags)
  return table.concat({ kind, ' ', share, ' ', claim, ' ', token, flags })
end

-- The `value` of a claim, with the flag `p` added: a client polls the name.
local function polled(value)
  return value .. 'p'
end

-- Whether `value` is a marker, which means that its name is inflated.
local function is_marker(value)
  return value and string.find(value, '^%l+ %* ') ~= nil
end
