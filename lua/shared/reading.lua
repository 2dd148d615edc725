-- shared/reading: claims begin to read a name, go on, and stop, see shared/readers.

-- Lets each of `claims` read `name` for so many of `ttls` ms from now.
local function let_read(name, claims, ttls)
  local longest, scores = 0, {}
  for i, claim in ipairs(claims) do
    scores[2 * i - 1], scores[2 * i] = string.format('%.0f', name.now + ttls[i]), claim
    longest = math.max(longest, ttls[i])
  end
  redis.call('ZADD', name.readers, unpack(scores))
  arm(name.readers, longest)
  -- The token may have been drawn for a shorter lease.
  if name.fenced then
    arm(name.fence, fence_memory(longest))
  end
  name.reading, name.read_until = true, math.max(name.read_until, name.now + longest)
end

-- Lets `claims`, which do not read yet, join the phase of `name`, each for so many of `ttls` ms; the first draws its token.
local function share(name, claims, ttls)
  forget_dead(name)
  if not name.held.taken and #name.held.dead > 0 then
    redis.call('DEL', name.main)
    name.held.dead = {}
  end
  if not name.read_token then
    name.read_token = draw_token(name.fence, name.floor, ttls[1], name.now_us)
    redis.call('ZADD', name.readers, string.format('-%s', name.read_token), 'token')
  end
  let_read(name, claims, ttls)
end

-- Lets `claim`, which does not read yet, read `name` for `ttl` ms inside another hold of its owner, with the `token` of that.
local function nest(name, claim, ttl, token)
  forget_dead(name)
  if token ~= name.read_token then
    redis.call('ZADD', name.readers, string.format('-%s', token), string.format('token:%s', claim))
  end
  let_read(name, { claim }, { ttl })
end

-- Lets the reader `claim` of `name` read on for `ttl` ms at least.
local function read_on(name, claim, ttl)
  local ends = read_of(name, claim)
  let_read(name, { claim }, { math.max(ttl, ends - name.now) })
end

-- Takes the reader `claim` out of `name`; for `keep` ms more it keeps writers out. Whether it was there and alive, or had left
-- already; for how long it keeps the name, ms.
local function stop_reading(name, claim, keep)
  local kept_as = string.format('kept:%s', claim)
  local ends = read_of(name, claim)
  if ends == 0 then
    local left = math.max(read_of(name, kept_as) - name.now, 0)
    return left > 0, left
  end
  local alive = ends > name.now
  keep = alive and keep or 0
  if keep > 0 then
    redis.call('ZADD', name.readers, string.format('%.0f', name.now + keep), kept_as)
    arm(name.readers, keep)
  end
  redis.call('ZREM', name.readers, claim, string.format('token:%s', claim))
  read_readers(name)
  if not name.reading then
    forget_dead(name)
  end
  return alive, keep
end
