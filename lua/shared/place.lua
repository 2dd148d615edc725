-- shared/place: the places in a queue, see shared/queue.

-- The first waiters of `name`, which has some, up to the one of rank `last`; their entries; how many dead are in front.
local function first_waiters(name, last)
  local claims = redis.call('ZRANGE', name.queue, 0, last)
  local entries = redis.call('HMGET', name.waiters, unpack(claims))
  for i = 1, #claims do
    if is_alive(name, entries[i]) then
      return claims, entries, i - 1
    end
  end
  return claims, entries, #claims
end

-- For how long the waiter that is alive until `ends` holds `name` at first, ms: its client counts on its own waiter ttl, which
-- may be longer than the caller's.
local function first_hold(name, ends)
  return math.max(name.waiter_ttl, ends - name.now)
end

-- Drops the dead in front of the queue of `name`, as far as the budget goes, and sets `more` if some remain. The first waiter
-- if that is one alive, its last executed request, its mode, and until when it is alive.
local function next_waiter(name)
  -- Most often the first is alive and known, and a long queue need not be read.
  local claims, entries, dead = { name.head }, { name.entry }, is_alive(name, name.entry) and 0 or 1
  if not name.head then
    claims, entries, dead = first_waiters(name, 0)
  end
  if dead > 0 then
    claims, entries, dead = first_waiters(name, budget)
    name.more = dead > budget
    local dropped = math.min(dead, budget)
    if dropped > 0 then
      withdraw(name, unpack(claims, 1, dropped))
      budget = budget - dropped
    end
  end
  local ends, request, mode = read_waiter(entries[dead + 1])
  return claims[dead + 1], request, mode, ends
end

-- The place of `claim` in the queue of `name`, 1 for the next; nil if it has none, or has died and now lost it. Its `entry`
-- is read unless given.
local function place_of(name, claim, entry)
  local rank = name.waits and redis.call('ZRANK', name.queue, claim)
  if not rank then
    return nil
  end
  if entry == nil then
    entry = redis.call('HGET', name.waiters, claim)
  end
  if not is_alive(name, entry) then
    withdraw(name, claim)
    return nil
  end
  return rank + 1
end

-- Notes that the waiter `claim` of `name` is alive, as this `request` says; of a kind with modes, which it waits for.
local function hear(name, claim, request, mode)
  local before = read_waiter(redis.call('HGET', name.waiters, claim)) or 0
  local ends = math.max(before, name.now + name.waiter_ttl)
  redis.call('HSET', name.waiters, claim, string.format(mode and '%.0f:%s:%s' or '%.0f:%s', ends, request, mode))
end
