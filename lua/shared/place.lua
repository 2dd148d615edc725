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
  local ends = math.max(read_waiter(entry) or 0, name.now + name.waiter_ttl)
  redis.call('HSET', name.state, claim, string.format('%.0f:%s', ends, request))
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
  local first = name.first_end or tonumber(redis.call('ZRANGE', name.holders, 0, 0, 'WITHSCORES')[2] or 0)
  return math.max(first - name.now, 0)
end

-- Lets `claim` wait for `name`, and saves the name: the claim keeps its place, or joins the end of the queue if fewer than `limit` claims wait
-- (negative: any number). Returns the reply to `request`.
local function stand(name, share, claim, request, limit)
  local member = member_of('', share, claim)
  local left, place, entry = first_end(name), place_of(name, member)
  if place then
    hear(name, claim, request, entry)
    settle(name)
    return { request, 'WAITING', left, place, other_limit(name, share) }
  end
  local length = name.inflated and redis.call('ZCARD', name.queue) or 0
  if limit > 0 and length >= limit then
    settle(name)
    return { request, 'QUEUE_FULL', length }
  end
  if name.alone then
    inflate(name)
  end
  local last = redis.call('ZRANGE', name.queue, -1, -1, 'WITHSCORES')
  redis.call('ZADD', name.queue, text_of(tonumber(last[2] or 0) + 1), member)
  name.fresh, name.limit = name.fresh or not name.waits, name.limit or limit_of(share)
  name.waits, name.looked = true, true
  hear(name, claim, request)
  settle(name)
  return { request, 'WAITING', left, length + 1, other_limit(name, share) }
end
