-- shared/place: one waiter in a queue, see shared/queue.

-- The place of the waiter `member` in the queue of `name`, 1 for the next, and until when it is alive; nil if it has no place, or is dead
-- and hereby loses it. Its `entry` is read unless it is given.
local function place_of(name, member, entry)
  local rank = name.waits and redis.call('ZRANK', name.queue, member)
  if not rank then
    return nil
  end
  if entry == nil then
    entry = redis.call('HGET', name.state, select(3, parts_of(member)))
  end
  local ends = read_waiter(name, entry)
  if not ends or ends <= name.now then
    withdraw(name, member)
    return nil
  end
  return rank + 1, ends
end

-- Notes that the waiter `claim` of `name` is alive at this `request`, for one waiter ttl from now; or until `ends`, if that is later, by a longer
-- waiter ttl. Stored when the name is settled.
local function hear(name, claim, request, ends)
  local heard = name.heard or {}
  ends = math.max(ends or 0, name.now + name.waiter_ttl)
  if heard.ends ~= ends or heard.waiter_ttl ~= name.waiter_ttl then
    -- Most waiters of a batch get the same entry, and making one costs time.
    heard.ends, heard.waiter_ttl = ends, name.waiter_ttl
    heard.entry = string.format('%.0f:%.0f:%s', ends, name.waiter_ttl, request)
  end
  heard[#heard + 1], heard[#heard + 2], name.heard = claim, heard.entry, heard
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
