-- shared/redisson_permits_hold: takes permits of a semaphore of Redisson's for a claim, and extends its lease, see shared/redisson_permits.

-- How many of the permits that a claim asks for it has not taken yet. Some may be taken already: a repeated acquire finds their ends even if the key
-- `claims` was lost.
local function untaken(ends, members, permits, leased)
  for _, score in ipairs(redis.call('ZMSCORE', ends, unpack(members))) do
    permits = permits - (score and (leased and 1 or permits) or 0)
  end
  return permits
end

-- How many permits are known to be held: all of those that are leased, otherwise those of our claims; no bound is known if these are very many.
local function known_to_be_held(ends, claims, leased)
  if leased then
    return redis.call('ZCARD', ends)
  end
  local held = redis.call('HLEN', claims) <= 256 and 0 or math.huge
  for _, facts in ipairs(held == 0 and redis.call('HVALS', claims) or {}) do
    held = held + tonumber((facts_of(facts)) or 0)
  end
  return held
end

-- Takes for `claim` those of its permits that are `missing`, which must be available. Returns the hold, with the fields that
-- arm_permits reads.
local function take_permits(main, claims, claim, permits, missing, token, leased)
  redis.call('INCRBY', main, string.format('%.0f', 0 - missing))
  redis.call('HSET', claims, claim, table.concat({ string.format('%.0f', permits), ' ', token }))
  local members = members_of(claim, permits, leased)
  for _, member in ipairs(leased and members or {}) do
    redis.call('HSET', claims, member, claim)
  end
  return { members = members, left = 0 }
end

-- Makes `hold` last for at least `ttl` ms from `now`.
local function arm_permits(main, ends, claims, hold, leased, ttl, now)
  for _, member in ipairs(hold.left < ttl and hold.members or {}) do
    redis.call('ZADD', ends, string.format('%.0f', now + ttl), member)
  end
  local life = redis.call('PTTL', main)
  arm(claims, leased and ttl or KEPT)
  if not leased then
    arm(ends, KEPT)
  elseif life > 0 then
    redis.call('PEXPIRE', ends, life) -- As Redisson does: the two keys live as long as one another.
  end
end
