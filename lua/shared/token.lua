-- shared/token: draws fencing tokens. All names of a slot draw from one counter, which is raised to the server's time in µs. So tokens
-- never go back, even if the counter is lost; the clock stays ahead of the counter, because there are fewer than a million draws per second.
-- The counter's ttl tells when it was last raised; for a moment after that, a draw is a single INCR.
-- A token becomes text as soon as it is drawn: joined as a number, Lua 5.1 would print only 14 digits of it.

-- The largest number up to which Lua can count in ones. It is no token: drawing it says that the counter is at its end, and clients refuse it.
local LARGEST_TOKEN = 9007199254740991

-- How long a counter is stored, ms; a text, because making one costs time. A counter ahead of the clock is stored until the clock
-- has caught up, plus this time; one behind it as if it had been raised that long ago.
local COUNTER_MEMORY = '86400000'

-- How long after it was raised a counter is not raised again, ms. No failover that loses draws is over that fast.
local RAISED = 10

-- The number of a token that another one can follow; 0 for anything else, so that an invalid key or request has no further effect.
local function token_number(text)
  local number = string.find(text or '', '^%d+$') and tonumber(text) or 0
  return number < LARGEST_TOKEN - 1 and number or 0
end

-- The number in a counter with this text. At its end it stays there: tokens never go back.
local function counted(text)
  local number = string.find(text or '', '^%d+$') and tonumber(text) or 0
  return math.min(number, LARGEST_TOKEN - 1)
end

-- The last token drawn. A key of another type has no token; MGET reads it without an error.
local function last_token(counter)
  return counted(redis.call('MGET', counter)[1])
end

-- Stores `token` (decimal) as the last one drawn, at `now` in µs.
local function keep_token(counter, token, now)
  local ahead = math.max(math.ceil((tonumber(token) - now) / 1000), -RAISED)
  redis.call('SET', counter, token, 'PX', ahead ~= 0 and string.format('%.0f', COUNTER_MEMORY + ahead) or COUNTER_MEMORY)
end

-- Draws a token from a counter that was set to `now` in µs, and had the value `before` until then; a table if it could not be set, because it has
-- another type. The token is larger than all drawn before, not below the clock, and above `floor` (decimal).
local function draw_after(before, counter, floor, now)
  local least = math.max(counted(type(before) == 'string' and before), token_number(floor)) + 1
  local token = string.format('%.0f', math.max(least, now))
  if least > now or type(before) == 'table' then
    keep_token(counter, token, now)
  end
  return token
end

-- Draws a token at `now` in µs.
local function draw_token(counter, floor, now)
  local before = redis.pcall('SET', counter, string.format('%.0f', now), 'PX', COUNTER_MEMORY, 'GET')
  return draw_after(before, counter, floor, now)
end

-- The same from a counter that was raised a moment ago; otherwise nil.
local function draw_again(counter, floor)
  local token = redis.call('PTTL', counter) > COUNTER_MEMORY - RAISED and redis.pcall('INCR', counter)
  -- A key of another type does not count, nor does a number that is not one of our tokens.
  if type(token) == 'number' and token > token_number(floor) and token < LARGEST_TOKEN then
    return redis.call('GET', counter)
  end
end
