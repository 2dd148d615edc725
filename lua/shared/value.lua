-- shared/value: what stands under the main key of a name, always a string; anything else is another library's.
--
-- `<kind> <share> <claim> <token><flags>`: one claim holds, and nothing else stands under the name. The key's ttl is its lease. A
-- share is `x` for all of the name, or how many parts of it the claim takes beside others: `2`, or `2/8` where there is an end of them, as
-- its client says. The flags: `r`, the claim is revoked; `c`, it has left, and the name cools down; `p`, somebody polls the name and asks
-- to be woken when it is free.
--
-- `<kind> * …`: the name is inflated, see shared/standing.

-- A read that counts as a write and changes nothing: a replica refuses it instead of answering from what it has, and a
-- server whose memory is full lets the writes behind it pass.
local AS_A_WRITE = 'GETEX'

-- How long an inflated name outlives its last change, ms, at least: longer than a failover takes, so that waiters keep their order.
-- It is armed for twice as long, so that not every script must do so again.
local MEMORY = 600000

-- The string at `key`, read by `command`, or false if there is none; nil if the key holds another type. The second value
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

-- How many parts a share takes; nil of all of the name, and of garbage.
local function weight_of(share)
  return tonumber(string.match(share or '', '^(%d+)/?%d*$') or '')
end

-- How many parts there are, as a share says; nil if there is no end of them.
local function limit_of(share)
  return tonumber(string.match(share or '', '^%d+/(%d+)$') or '')
end

-- The kind, share, claim, token and flags of a `value` that is one claim's; nil if it is none.
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

-- The `value` of a claim that somebody polls from now on.
local function polled(value)
  return string.format('%sp', value)
end

-- Whether `value` says that its name is inflated.
local function is_marker(value)
  return value and string.find(value, '^%l+ %* ') ~= nil
end
