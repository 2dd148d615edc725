-- shared/place: one waiter in a queue, see shared/queue.

-- The place of the waiter `member` in the queue of `name`, 1 for the next, and its entry; nil if it has none, or has died and now lost
-- it. Its `entry` is read unless given.
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

-- Notes that the waiter `claim` of `name`, whose `entry` was this, is alive, as this `request` says.
local function hear(name, claim, request, entry)
  local ends = math.max(read_waiter(entry) or 0, name.now + name.waiter_ttl)
  redis.call('HSET', name.state, claim, string.format('%.0f:%s', ends, request))
end

-- How many parts of `name` there are, if a share says that there are others.
local function other_limit(name, share)
  return name.limit ~= limit_of(share) and name.limit or nil
end

-- For how long no lease under `name` ends, ms; negative: without an end.
local function first_end(name)
  if name.alone then
    return name.alone.left
  end
  local first = name.first_end or tonumber(redis.call('ZRANGE', name.holders, 0, 0, 'WITHSCORES')[2] or 0)
  return math.max(first - name.now, 0)
end

-- Lets `claim` wait for `name`, and writes that down: its place is kept, or it joins at the end if fewer than `limit` wait, negative: any
-- number. What `request` is answered.
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
