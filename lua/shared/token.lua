-- shared/token: draws fencing tokens. All names of a slot draw from one counter. It is raised to the server's time in µs: then tokens
-- never go back, whatever became of the counter, and the clock stays ahead of it, since less than a million draws a second are made.
-- Its ttl says when it was raised last; for a moment after that a draw is one INCR.
-- A token is text as soon as it is drawn: Lua 5.1 would print a joined number with 14 digits.

-- Above this Lua cannot count in ones.
local LARGEST_TOKEN = 9007199254740991

-- How long a counter is remembered, ms; one that is ahead of the clock until the clock has caught up, and for so long again.
local COUNTER_MEMORY = 86400000

-- For how long after it was raised a counter is not raised again, ms: no failover that forgets draws is over so soon.
local RAISED = 10

-- The number of a token behind which another one comes; 0 for anything that is none, so that garbage in a key or a request spreads no further.
local function token_number(text)
  local number = string.find(text or '', '^%d+$') and tonumber(text) or 0
  return number < LARGEST_TOKEN - 1 and number or 0
end

-- The last token drawn. Another type under the key is no token either, and is not asked for by a command that would fail.
local function last_token(counter)
  return token_number(redis.call('MGET', counter)[1])
end

-- Lets `token` (decimal) be the last one drawn, at `now` in µs.
local function keep_token(counter, token, now)
  local ahead = math.max(math.ceil((tonumber(token) - now) / 1000), 0)
  redis.call('SET', counter, token, 'PX', string.format('%.0f', COUNTER_MEMORY + ahead))
end

-- Draws a token at `now` in µs: larger than every one drawn before, not before the clock, and above `floor` (decimal).
local function draw_token(counter, floor, now)
  local token = string.format('%.0f', math.max(last_token(counter) + 1, now, token_number(floor) + 1))
  keep_token(counter, token, now)
  return token
end

-- The same from a counter that was raised a moment ago; else nil.
local function draw_again(counter, floor)
  local token = redis.call('PTTL', counter) > COUNTER_MEMORY - RAISED and redis.pcall('INCR', counter)
  -- Another type does not count, nor a number that is none of ours.
  if type(token) == 'number' and token > token_number(floor) and token < LARGEST_TOKEN then
    return string.format('%.0f', token)
  end
end
