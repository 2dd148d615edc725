-- shared/settle: saves the new state of a name, see shared/standing.

-- How many dead claims one run removes: a script must not block the server for long.
local DEAD_HOLDERS = 64

-- Deletes what is left of a `name` that is free.
local function forget(name)
  redis.call('DEL', name.main, name.holders, name.queue, name.state)
  name.found, name.inflated, name.limit = nil, false, nil
end

-- Notes that the caller polls `name`, and must be told when it is free.
local function ask_for_wake(name)
  if name.alone and not name.polled then
    write_value(name.main, true, polled(name.alone.value))
  end
  name.changed, name.polled = name.changed or not name.polled, true
end

-- Writes the marker of the inflated `name`, if it has changed.
local function save(name)
  if name.changed then
    local flags = table.concat({ '-', name.reenters and 'e' or '', name.revoked and 'r' or '', name.polled and 'p' or '' })
    local counts = string.format('%.0f %.0f %.0f', name.exclusive, name.live, name.parts)
    local parts = name.limit and table.concat({ counts, '/', text_of(name.limit) }) or counts
    local words = { name.found or name.kind, '*', parts, name.token or '0', flags, name.owner or '-' }
    write_value(name.main, true, table.concat(words, ' '))
    name.changed = false
  end
end

-- Removes claims of the inflated `name` whose leases have ended, and sets `more` if there may be others.
local function bury(name)
  if name.first_end > name.now then
    return
  end
  local dead = redis.call('ZRANGEBYSCORE', name.holders, '0', text_of(name.now), 'LIMIT', 0, DEAD_HOLDERS)
  name.more = #dead == DEAD_HOLDERS
  if #dead > 0 then
    redis.call('ZADD', name.holders, 'XX', '0', 'none') -- Changes nothing, but needs memory, see shared/enter.
    redis.call('ZREM', name.holders, unpack(dead))
    name.first_end = nil
    for _, member in ipairs(dead) do
      uncount(name, parts_of(member))
    end
    save(name)
  end
end

-- Stores what is new about the queue of `name`, which is not empty: what was heard of its waiters; and, if it was read just now, when that was
-- and which waiters are in grace.
local function save_queue(name)
  local news = name.heard or {}
  if name.looked then
    news[#news + 1], news[#news + 2] = 'seen', text_of(name.now)
  end
  if name.looked and name.grace then
    news[#news + 1], news[#news + 2] = 'grace', name.grace
  end
  if #news > 0 then
    redis.call('HSET', name.state, unpack(news))
  end
end

-- Saves the state of any `name`. Tells its pollers if an inflated name is now free (no claims and no waiters), or if the last holder of all of
-- it has released it into a cooldown, because then it becomes free at another time. Returns '0' if the server refused that message.
local function settle(name)
  if name.inflated and not is_taken(name) and not name.waits then
    forget(name)
    return name.polled and wake(name.channel, 'free') or '1'
  end
  if name.inflated then
    if name.waits then
      save_queue(name)
    end
    save(name)
    keep(name)
  end
  return name.cools and name.polled and wake(name.channel, 'kept') or '1'
end
