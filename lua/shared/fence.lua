-- shared/fence: draws fencing tokens. A token is max(last + 1, server time in µs, floor + 1), so tokens of a name
-- never decrease: not when the fence key expired, not when it was deleted, not when the clock steps back while it lives.
-- A token is a string from birth: Lua 5.1 would print a joined number with 14 digits.

-- How long a drawn token is remembered, ms, at least; a clock that stepped back lengthens it by the step.
local FENCE_MEMORY = 600000

-- Draws the next token: `key` the fence, `floor` the largest token the caller has seen (decimal), `ttl` the lease in ms.
local function draw_token(key, floor, ttl)
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local last = tonumber(redis.call('GET', key) or 0) or 0
  local token = string.format('%.0f', math.max(last + 1, now, (tonumber(floor) or 0) + 1))
  local behind = math.ceil(math.max(0, last - now) / 1000)
  redis.call('SET', key, token, 'PX', string.format('%.0f', math.max(FENCE_MEMORY, 2 * ttl) + behind))
  return token
end
