-- shared/waiters: the waiters in a queue, in order, see shared/queue.

-- How many dead waiters one run drops, and to how many waiters it grants, however many items it has: a script must not block the server for long.
local budget, room = 128, 24

-- Until when the waiter of `name` with this `entry` is alive, and its last executed request; nil if there is no such entry. Most waiters of a
-- batch have the same entry, so the last one read is remembered.
local function read_waiter(name, entry)
  if name.entry_read ~= entry then
    local ends, waiter_ttl, request = string.match(entry or '', '^(%d+):(%d+):(.*)$')
    ends = tonumber(ends or '')
    if ends and name.grace_from and ends >= name.grace_from then
      ends = math.max(ends, name.grace_at + tonumber(waiter_ttl))
    end
    name.entry_read, name.entry_ends, name.entry_request = entry, ends, request
  end
  return name.entry_ends, name.entry_request
end

local function is_alive(name, entry)
  local ends = read_waiter(name, entry)
  return ends ~= nil and ends > name.now
end

-- Removes members from the queue of `name`; returns how many were in it. Deletes the facts of an empty queue.
local function withdraw(name, ...)
  local gone = redis.call('ZREM', name.queue, ...)
  redis.call('HDEL', name.state, unpack(claims_of({ ... })))
  name.head, name.entry = redis.call('ZRANGE', name.queue, '0', '0')[1], nil
  name.waits = name.head ~= nil
  if not name.waits then
    redis.call('HDEL', name.state, 'seen', 'grace')
  end
  return gone
end

-- The first waiters of `name`, which has some, up to rank `last`; their entries; how many dead ones are in front.
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

-- Drops the dead waiters in front of the queue of `name`, as far as the budget goes, and sets `more` if some remain. Returns the first
-- waiter if it is alive, its last executed request, and until when it is alive.
local function next_waiter(name)
  if name.entry == nil then
    name.entry = redis.call('HGET', name.state, claims_of({ name.head })[1])
  end
  local ends, request = read_waiter(name, name.entry)
  if ends and ends > name.now then
    -- In most cases the first one is alive, so a long queue need not be read.
    return name.head, request, ends
  end
  local members, entries, dead = first_waiters(name, budget)
  name.more = name.more or dead > budget
  local dropped = math.min(dead, budget)
  if dropped > 0 then
    withdraw(name, unpack(members, 1, dropped))
    budget = budget - dropped
  end
  ends, request = read_waiter(name, entries[dead + 1])
  return members[dead + 1], request, ends
end
