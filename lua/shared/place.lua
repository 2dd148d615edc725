-- shared/place: one waiter in a queue, see shared/queue.

-- The place of the waiter `member` in the queue of `name`, 1 for the next, and its entry; nil if it has no place, or is dead and hereby
-- loses it. Its `entry` is read unless it is given.
local function place_of(name, member, entry)
  local rank = name.waits and redis.call('ZRANK', name.queue, member)
  if not rank then
    return nil
  end
  if entry == nil then
    entry = redis.call('HGET', name.state, select(3, parts_of(member)))
  end
  if not is_alive(name, entry) then
    withdraw(name, member)
    return nil
  end
  return rank + 1, entry
end

-- Notes that the waiter `claim` of `name`, which has this `entry`, is alive at this `request`.
local function hear(name, claim, request, entry)
  -- It may be alive for longer, by a longer waiter ttl, which is not shortened.
  local ends = math.max(read_waiter(name, entry) or 0, name.now + name.waiter_ttl)
  redis.call('HSET', name.state, claim, string.format('%.0f:%.0f:%s', ends, name.waiter_ttl, request))
end

-- The number of parts of `name`, if it differs from the one in the share.
local function other_limit(name, share)
  return name.limit ~= limit_of(share) and name.limit or nil
end

-- How long until the first lease under `name` ends, ms; negative: never.
local function first_end(name)
  if name.alone then
    return name.alone.left
  end
  local first = name.first_end or tonumber(redis.call('ZRANGE', name.holders, '0', '0', 'WITHSCORES')[2] or 0)
  return math.max(first - name.now, 0)
end
