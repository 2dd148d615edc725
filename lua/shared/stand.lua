-- shared/stand: a claim that cannot hold now stands in the queue, see shared/queue.

-- Puts `claim` at the end of the queue of `name`, with the ticket after the last.
local function join(name, claim, request, mode)
  local last = redis.call('ZRANGE', name.queue, -1, -1, 'WITHSCORES')
  redis.call('ZADD', name.queue, string.format('%.0f', tonumber(last[2] or 0) + 1), claim)
  if not name.waits then
    -- Whatever a queue that was deleted by hand has left.
    redis.call('DEL', name.waiters)
    name.waits, name.grace = true, nil
  end
  mark_seen(name)
  hear(name, claim, request, mode)
end

-- Lets `claim` wait for `name`, held for `left` ms more: its place is kept, or it joins at the end if fewer than `limit` wait,
-- negative: any number. What `request` is answered.
local function stand(name, claim, request, limit, left, mode)
  if limit == 0 then
    return { request, 'BUSY', left }
  end
  local place = place_of(name, claim)
  if place then
    hear(name, claim, request, mode)
    return { request, 'WAITING', left, place }
  end
  local length = redis.call('ZCARD', name.queue)
  if limit > 0 and length >= limit then
    return { request, 'QUEUE_FULL', length }
  end
  join(name, claim, request, mode)
  return { request, 'WAITING', left, length + 1 }
end
