-- shared/redisson_queue: the queue of Redisson's RFairLock. `queue` is a LIST of the owners that wait, in order. `timeouts` is a ZSET: owner -> the
-- epoch ms after which the others no longer wait for this owner once it is first. Clients of Redisson take these times from their own clocks;
-- we take them from the server's. `places` is a HASH of ours: owner -> its claim that waits, the one that asked last.

local MOST = 256 -- How many owners one run drops or moves forward at most.

-- The first owner in the queue of `line`, after dropping owners whose time is over or that are in only one of the two keys; false if nobody waits;
-- nil if a key has another type. The second value is any other error of the server, to be returned as it is. With `writes`, it begins with a write.
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
    redis.call('ZADD', line.timeouts, 'XX', '0', 'none') -- Changes nothing, but needs memory, see shared/enter.
    redis.call('LPOP', line.queue)
    redis.call('ZREM', line.timeouts, first)
    redis.call('HDEL', line.places, first)
    first = redis.call('LINDEX', line.queue, 0)
  end
  if line.ZCARD > line.LLEN then
    redis.call('ZADD', line.timeouts, 'XX', '0', 'none')
    for _, owner in ipairs(redis.call('ZRANGE', line.timeouts, 0, MOST - 1)) do
      if not redis.call('LPOS', line.queue, owner) then
        redis.call('ZREM', line.timeouts, owner)
      end
    end
  end
  return first
end

-- The place of `owner` in the queue, 1 for the first; nil if it does not wait.
local function place_in(line, owner)
  local place = redis.call('LPOS', line.queue, owner)
  return place and place + 1 or nil
end

-- Removes `owner` from the queue. The owners behind it no longer have to wait for it, so their times come `wait` ms earlier.
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

-- Lets `claim` wait for its owner, which keeps its place or joins the end. Its time is then `wait` ms after that of the last owner or, in an empty
-- queue, after the lease, which ends in `left` ms. Returns its place; or nil and how many wait, if that is `limit` already (negative: no limit).
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
