-- shared/queue: who waits for a name. `queue` is a ZSET of claims by ticket; `waiters` a HASH with, for each of them, `<server
-- ms until which it is alive>:<number of its last executed request>`, followed by `:<mode>` if its kind has modes, and two
-- facts: `seen`, when a script last looked, and `grace`, `<from>:<until>:<gaps>`. A `name` here is a table: its keys,
-- `waiter_ttl`, and `now` in ms.

-- How many dead waiters one run drops, whatever its items: a script must not hold up the server.
local budget = 256

-- After so many gaps in a row it is rather that hardly anybody asks, and the waiters of before are dead.
local GAPS_IN_A_ROW = 3

-- How long a queue outlives its last change, ms, at least: longer than a failover takes, so that waiters keep their order.
local QUEUE_MEMORY = 600000

-- For how much longer it is armed, ms, so that not every script must do so again.
local ARMED_AHEAD = 60000

-- Reads whether anybody `waits` for `name`, and who is in grace: if nobody looked for half a waiter's ttl, then nobody could
-- have been heard, and who was alive when last seen counts as alive for one ttl more. False if a key holds another type. The
-- second value is any other error of the server, to be returned as it is.
local function read_queue(name)
  local heads = redis.pcall('ZRANGE', name.queue, 0, 0)
  local facts = heads.err and heads or redis.pcall('HMGET', name.waiters, 'seen', 'grace', heads[1] or 'seen')
  if facts.err then
    return false, not string.find(facts.err, 'WRONGTYPE', 1, true) and facts or nil
  end
  local seen = tonumber(facts[1] or '') or name.now
  local from, to, gaps = string.match(facts[2] or '', '^(%d+):(%d+):(%d+)$')
  from, to, gaps = tonumber(from or 0), tonumber(to or 0), tonumber(gaps or 0)
  if name.now - seen > name.waiter_ttl / 2 then
    -- Those in grace before, who have not been heard since, were alive then too.
    if to < seen or gaps >= GAPS_IN_A_ROW then
      from, gaps = seen, 0
    end
    to, gaps = name.now + name.waiter_ttl, gaps + 1
    name.grace = string.format('%.0f:%.0f:%.0f', from, to, gaps)
  end
  name.grace_from = to > name.now and from or math.huge
  name.waits, name.head, name.entry = #heads > 0, heads[1], facts[3]
  return true
end

-- Notes that the queue of `name`, which is not empty, has been looked at, and keeps it for long enough.
local function mark_seen(name)
  redis.call('HSET', name.waiters, 'seen', string.format('%.0f', name.now))
  if name.grace then
    redis.call('HSET', name.waiters, 'grace', name.grace)
  end
  local memory = math.max(QUEUE_MEMORY, 2 * name.waiter_ttl)
  for _, key in ipairs({ name.queue, name.waiters }) do
    if redis.call('PTTL', key) < memory then
      redis.call('PEXPIRE', key, string.format('%.0f', memory + ARMED_AHEAD))
    end
  end
end

-- Until when the waiter with this `entry` is alive by its own word, its last executed request and its mode, empty if its kind
-- has none; nil if there is no such entry.
local function read_waiter(entry)
  local ends, request, mode = string.match(entry or '', '^(%d+):([^:]*):?(.*)$')
  return tonumber(ends or ''), request, mode
end

local function is_alive(name, entry)
  local ends = read_waiter(entry)
  return ends ~= nil and (ends >= name.now or ends >= name.grace_from)
end

-- Takes claims out of the queue of `name`; how many were in it. Of an empty queue nothing is remembered.
local function withdraw(name, ...)
  local gone = redis.call('ZREM', name.queue, ...)
  redis.call('HDEL', name.waiters, ...)
  name.head = nil
  name.waits = redis.call('EXISTS', name.queue) == 1
  if not name.waits then
    redis.call('DEL', name.waiters)
  end
  return gone
end
