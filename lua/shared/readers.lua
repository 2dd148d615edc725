-- shared/readers: those who hold a name together. `readers` is a ZSET: each member is a claim, and its score the server ms at
-- which that claim's lease ends; `kept:<claim>` has left and keeps writers out until then. Facts have a score below zero:
-- `token` that of the phase, negated, which all who read at one time share; `token:<claim>` that of one claim with a token of
-- its own, because it began inside its owner's write; `revoked`: all of them are revoked.

-- How many readers that have died one run forgets.
local DEAD_READERS = 128

local function as_token(score)
  return score and string.format('%.0f', -tonumber(score)) or nil
end

-- Reads until when anybody reads `name`: `read_until` and whether that is `reading` now; then the `read_token` of the phase, if
-- it has one, and whether the phase is `read_revoked`. False if the key holds another type. The second value is any other
-- error of the server, to be returned as it is.
local function read_readers(name)
  local last = redis.pcall('ZRANGE', name.readers, -1, -1, 'WITHSCORES')
  if last.err then
    return false, not string.find(last.err, 'WRONGTYPE', 1, true) and last or nil
  end
  name.read_until = math.max(tonumber(last[2] or 0), 0)
  name.reading = name.read_until > name.now
  local facts = name.reading and redis.call('ZMSCORE', name.readers, 'token', 'revoked') or {}
  name.read_token, name.read_revoked = as_token(facts[1]), facts[2]
  return true
end

-- When the lease of the reader `claim` of `name` ends, 0 if it is none; and its token.
local function read_of(name, claim)
  local scores = redis.call('ZMSCORE', name.readers, claim, string.format('token:%s', claim))
  return tonumber(scores[1] or 0), as_token(scores[2]) or name.read_token
end

-- The claims alive that read `name`, and those that have left and keep writers out.
local function all_readers(name)
  return redis.call('ZRANGEBYSCORE', name.readers, string.format('(%.0f', name.now), '+inf')
end

-- The claims of `owner` that read `name`. Looks at all who do: not to be asked for an owner that was made for one claim.
local function reads_of(name, owner)
  local found = {}
  for _, claim in ipairs(name.reading and all_readers(name) or {}) do
    if owner_of(claim) == owner then
      found[#found + 1] = claim
    end
  end
  return found
end

-- Forgets the phase that is over, or some of those who have died in this one: when the clock steps back they must not live
-- beside a writer.
local function forget_dead(name)
  if not name.reading then
    redis.call('DEL', name.readers)
    name.read_token, name.read_revoked = nil, false
    return
  end
  local dead = redis.call('ZRANGEBYSCORE', name.readers, 0, string.format('%.0f', name.now), 'LIMIT', 0, DEAD_READERS)
  if #dead > 0 then
    redis.call('ZREM', name.readers, unpack(dead))
    for i, claim in ipairs(dead) do
      dead[i] = string.format('token:%s', claim)
    end
    redis.call('ZREM', name.readers, unpack(dead))
  end
end
