-- shared/token: draws fencing tokens. All names of a slot draw from one counter, so that a draw is one INCR. It is raised to the
-- server's time in µs by those who do not know that it was a moment ago: then tokens never go back, whatever became of the counter,
-- and the clock stays ahead of it, since less than a million draws a second are made.
-- A token is text as soon as it is drawn: Lua 5.1 would print a joined number with 14 digits.

-- Above this Lua cannot count in ones.
local LARGEST_TOKEN = 9007199254740991

-- How long a counter is remembered, ms; one that is ahead of the clock until the clock has caught up, and for so long again.
local COUNTER_MEMORY = 86400000

-- The number of a token; 0 for anything that is none, so that garbage in a key or a request spreads no further.
local function token_number(text)
  local number = string.find(text or '', '^%d+$') and tonumber(text) or 0
  return number < LARGEST_TOKEN and number or 0
end

-- The last token drawn. Another type under the key is no token either, and is not asked for by a command that would fail.
local function last_token(counter)
  return token_number(redis.call('MGET', counter)[1])
end

-- Raises the counter to `token` (decimal) at `now` in µs, unless it is there already.
local function raise_counter(counter, token, now)
  local number = token_number(token)
  if number > last_token(counter) then
    local ahead = math.max(math.ceil((number - now) / 1000), 0)
    redis.call('SET', counter, token, 'PX', string.format('%.0f', COUNTER_MEMORY + ahead))
  end
end

-- Draws a token at `now` in µs: larger than every one drawn before, not before the clock, and above `floor` (decimal).
local function draw_token(counter, floor, now)
  local last = last_token(counter)
  local token = string.format('%.0f', math.max(last + 1, now, token_number(floor) + 1))
  raise_counter(counter, token, now)
  return token
end
