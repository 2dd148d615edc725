-- shared/waiters: the waiters in a queue, see shared/queue, in their order.

-- How many dead waiters one run drops, and how many it lets in, whatever its items: a script must not hold up the server.
local budget, room = 256, 128

-- Until when the waiter with this `entry` is alive by its own word, and its last executed request; nil if there is no such entry.
local function read_waiter(entry)
  local ends, request = string.match(entry or '', '^(%d+):(.*)$')
  return tonumber(ends or ''), request
end

local function is_alive(name, entry)
  local ends = read_waiter(entry)
  return ends ~= nil and (ends >= name.now or ends >= name.grace_from)
end

-- Takes members out of the queue of `name`; how many were in it. Of an empty queue nothing is remembered.
local function withdraw(name, ...)
  local gone = redis.call('ZREM', name.queue, ...)
  redis.call('HDEL', name.state, unpack(claims_of({ ... })))
  name.head, name.entry = redis.call('ZRANGE', name.queue, 0, 0)[1], nil
  name.waits = name.head ~= nil
  if not name.waits then
    redis.call('HDEL', name.state, 'seen', 'grace')
  end
  return gone
end

-- The first waiters of `name`, which has some, up to the one of rank `last`; their entries; how many dead are in front.
local function first_waiters(name, last)
  local members = redis.call('ZRANGE', name.queue, 0, last)
  local entries = redis.call('HMGET', name.state, unpack(claims_of(members)))
  for i = 1, #members do
    if is_alive(name, entries[i]) then
      return members, entries, i - 1
    end
  end
  return members, entries, #members
end

-- Drops the dead in front of the queue of `name`, as far as the budget goes, and sets `more` if some remain. The first waiter
-- if that is one alive, its last executed request, and until when it is alive.
local function next_waiter(name)
  -- Most often the first is alive, and a long queue need not be read.
  if name.entry == nil then
    name.entry = redis.call('HGET', name.state, claims_of({ name.head })[1])
  end
  local members, entries, dead = { name.head }, { name.entry }, is_alive(name, name.entry) and 0 or 1
  if dead > 0 then
    members, entries, dead = first_waiters(name, budget)
    name.more = name.more or dead > budget
    local dropped = math.min(dead, budget)
    if dropped > 0 then
      withdraw(name, unpack(members, 1, dropped))
      budget = budget - dropped
    end
  end
  local ends, request = read_waiter(entries[dead + 1])
  return members[dead + 1], request, ends
end
