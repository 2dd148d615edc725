-- shared/stand: lets a claim wait in a queue, see shared/queue.

-- How many waiters of a full queue one run looks at: few, because a limit is there to make a refusal cheap.
local LOOKED_AT = 16

-- Removes dead waiters of `name` from wherever they are in its queue, which has this `length`. In a longer queue than one run may look at, the time
-- decides which part is looked at, so that other runs look at other parts. Returns how many waiters remain.
local function thin_out(name, length)
  local first = length > LOOKED_AT and name.now % (length - LOOKED_AT + 1) or 0
  local members, dead = redis.call('ZRANGE', name.queue, first, first + LOOKED_AT - 1), {}
  for i, entry in ipairs(redis.call('HMGET', name.state, unpack(claims_of(members)))) do
    if not is_alive(name, entry) then
      dead[#dead + 1] = members[i]
    end
  end
  return length - (#dead > 0 and withdraw(name, unpack(dead)) or 0)
end

-- Lets `claim` wait for `name`, and saves the name: the claim keeps its place, or joins the end of the queue if fewer than `limit` live claims wait
-- (negative: any number). Returns the reply to `request`.
local function stand(name, share, claim, request, limit)
  local member = member_of('', share, claim)
  local left, place, alive_until = first_end(name), place_of(name, member)
  if place then
    hear(name, claim, request, alive_until)
    settle(name)
    return { request, 'WAITING', left, place, other_limit(name, share) }
  end
  local length = name.inflated and redis.call('ZCARD', name.queue) or 0
  if limit > 0 and length >= limit then
    length = thin_out(name, length)
  end
  if limit > 0 and length >= limit then
    settle(name)
    return { request, 'QUEUE_FULL', length }
  end
  if name.alone then
    inflate(name)
  end
  local last = redis.call('ZRANGE', name.queue, '-1', '-1', 'WITHSCORES')
  redis.call('ZADD', name.queue, text_of(tonumber(last[2] or 0) + 1), member)
  name.fresh, name.limit = name.fresh or not name.waits, name.limit or limit_of(share)
  name.waits, name.looked = true, true
  hear(name, claim, request)
  settle(name)
  return { request, 'WAITING', left, length + 1, other_limit(name, share) }
end
