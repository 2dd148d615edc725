-- shared/value: the value of a name's main key: the only element of a LIST. Every server can remove an element if it is the expected one, LREM, or
-- replace it, LSET, by one command. Anything else at that key belongs to another library.
--
-- `<kind> <share> <claim> <token><flags>`: one claim holds, alone under the name. The key's ttl is its lease. A share is `x` for all of
-- the name, or the number of parts that the claim takes beside others: `2`, or `2/8` if the client knows a limit of 8 parts.
-- The flags: `r`, the claim is revoked; `c`, it was released, and the name is in cooldown; `p`, a client polls the name and wants to be
-- woken when it is free. `<kind> * …`: the name is inflated, see shared/standing.

-- The least time for which an inflated name outlives its last change, ms: longer than a failover takes, so that waiters keep their
-- order. Keys get twice that time, so that not every script must extend them.
local MEMORY = 600000

-- The value at `key`, or false if there is none; nil if the key has another type. The second value is any other error of the server, to be
-- returned as it is: it must not look like "not held". A string, which is how other libraries lock, is returned with a blank in front. With
-- `as_a_write`, begins with a write that changes nothing: a replica refuses it instead of answering from its own data, and a server whose memory
-- is full accepts the writes that follow.
local function read_value(key, as_a_write)
  local value = as_a_write and redis.pcall('LREM', key, '1', '')
  if type(value) ~= 'table' then
    value = redis.pcall('LINDEX', key, '0')
  end
  if type(value) ~= 'table' then
    return value
  end
  if string.find(value.err, 'WRONGTYPE', 1, true) then
    local text = redis.call('MGET', key)[1]
    return text and table.concat({ ' ', text }) or nil
  end
  return nil, value
end

-- Writes the value of `key`, which has one if `stands`. With `ttl`, in ms, the lease is that, otherwise it stays.
local function write_value(key, stands, value, ttl)
  if stands then
    redis.call('LSET', key, '0', value)
  else
    redis.call('RPUSH', key, value)
  end
  local armed = ttl and redis.pcall('PEXPIRE', key, ttl) or 1
  if armed ~= 1 then
    -- The ttl is invalid, and a value without one must not stay.
    redis.call('DEL', key)
    error(armed.err)
  end
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
