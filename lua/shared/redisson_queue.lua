-- shared/redisson_queue: who waits for a name of Redisson's RFairLock. `queue` is a LIST of the owners in order. `timeouts` is a ZSET: owner ->
-- the epoch ms from which on nobody waits for this owner any more once it is the first. Each client of Redisson takes its own clock; we
-- take the server's. `places` is a HASH of ours: owner -> its claim that stands in the queue, the one that asked last.

local MOST = 256 -- How many owners one run drops or moves forward at most.

-- The first in the queue of `line`, after dropping those whose time is over and those in one of the two keys only; false if nobody waits; nil if a
-- key has another type. The second value is any other error of the server, to be returned as it is. With `writes`, it begins with a write.
local function first_of(line, writes)
  local places = writes and { 'HDEL', line.places, 'lockkeeper.none' } or { 'HLEN', line.places }
  for _, read in ipairs({ places, { 'LLEN', line.queue }, { 'ZCARD', line.timeouts } }) do
    local length = redis.pcall(unpack(read))
    if type(length) == 'table' then
      return nil, not string.find(length.err, 'WRONGTYPE', 1, true) and length or nil
    end
    line[read[1]] = length
  end
  local first = redis.call('LINDEX', line.queue, 0)
  for _ = 1, MOST do
    local ends = first and redis.call('ZMSCORE', line.timeouts, first)[1]
    if not first or ends and tonumber(ends) > line.now then
      break
    end
    redis.call('LPOP', line.queue)
    redis.call('ZREM', line.timeouts, first)
    redis.call('HDEL', line.places, first)
    first = redis.call('LINDEX', line.queue, 0)
  end
  if line.ZCARD > line.LLEN then
    for _, owner in ipairs(redis.call('ZRANGE', line.timeouts, 0, MOST - 1)) do
      if not redis.call('LPOS', line.queue, owner) then
        redis.call('ZREM', line.timeouts, owner)
      end
    end
  end
  return first
end

-- The channel on which the waiter of `owner` is told that its turn may have come.
local function channel_to(channel, owner)
  return string.format('%s:%s', channel, owner)
end

-- The place of `owner` in the queue, 1 for the first; nil if it does not wait.
local function place_in(line, owner)
  local place = redis.call('LPOS', line.queue, owner)
  return place and place + 1 or nil
end

-- Takes `owner` out of the queue. Those behind it no longer wait for it, for `wait` ms.
local function leave(line, owner, wait)
  local rank = redis.call('ZRANK', line.timeouts, owner)
  local behind = rank and redis.call('ZRANGE', line.timeouts, rank + 1, rank + MOST, 'WITHSCORES') or {}
  for i = 1, #behind, 2 do
    redis.call('ZADD', line.timeouts, string.format('%.0f', behind[i + 1] - wait), behind[i])
  end
  redis.call('ZREM', line.timeouts, owner)
  redis.call('LREM', line.queue, 0, owner)
  redis.call('HDEL', line.places, owner)
end

-- Lets `claim` stand in the queue for its owner, which keeps its place, or joins the end and is waited for until `wait` ms after the last one,
-- or after the lease, which ends in `left` ms. Returns its place; nil if `limit` wait already (negative: any number), and how many wait.
local function stand_in(line, claim, wait, limit, left)
  local owner = owner_of(claim)
  local place = place_in(line, owner)
  if not place then
    local length = redis.call('LLEN', line.queue)
    if limit >= 0 and length >= limit then
      return nil, length
    end
    local last = redis.call('LINDEX', line.queue, -1)
    local ends = last and redis.call('ZMSCORE', line.timeouts, last)[1] or line.now + left
    redis.call('ZADD', line.timeouts, string.format('%.0f', math.max(tonumber(ends), line.now) + wait), owner)
    place = redis.call('RPUSH', line.queue, owner)
  end
  redis.call('HSET', line.places, owner, claim)
  arm(line.places, wait)
  return place
end
