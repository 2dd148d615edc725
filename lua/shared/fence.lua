-- shared/fence: draws fencing tokens. A token is max(last + 1, server time in µs, floor + 1), so tokens of a name
-- never decrease: not when the fence key expired, not when it was deleted, not when the clock steps back while it lives.
-- A token is a string from birth: Lua 5.1 would print a joined number with 14 digits.

-- How long a drawn token is remembered, ms, at least; one that is ahead of the clock is kept until the clock has caught up
-- and for this long again.
local FENCE_MEMORY = 600000

-- Above this Lua cannot count in ones.
local LARGEST_TOKEN = 9007199254740991

-- The number of a token; 0 for anything that is none, so that garbage in a key or a request spreads no further.
local function token_number(text)
  local number = string.find(text or '', '^%d+$') and tonumber(text) or 0
  return number < LARGEST_TOKEN and number or 0
end

-- How long the fence of a lease of `ttl` ms is remembered, ms.
local function fence_memory(ttl)
  return math.max(FENCE_MEMORY, 2 * ttl)
end

-- Draws the next token at `now` µs: `key` the fence, `floor` the largest token the caller has seen (decimal), `ttl` the
-- lease in ms.
local function draw_token(key, floor, ttl, now)
  local last = token_number(redis.call('GET', key) or '')
  local next_token = math.max(last + 1, now, token_number(floor) + 1)
  local ahead = math.ceil((next_token - now) / 1000)
  local token = string.format('%.0f', next_token)
  redis.call('SET', key, token, 'PX', string.format('%.0f', fence_memory(ttl) + ahead))
  return token
end
