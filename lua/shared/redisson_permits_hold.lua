-- shared/redisson_permits_hold: how a claim takes permits of a semaphore of Redisson's and goes on to hold them, see shared/permits.

-- Takes so many permits, which are available; what is known of `claim` then. No permit of it has an end yet.
local function take_permits(main, claims, claim, permits, token, leased)
  local number = string.format('%.0f', permits)
  redis.call('INCRBY', main, string.format('%.0f', -permits))
  redis.call('HSET', claims, claim, table.concat({ number, ' ', token }))
  local members = members_of(claim, permits, leased)
  for _, member in ipairs(leased and members or {}) do
    redis.call('HSET', claims, member, claim)
  end
  return { members = members, left = 0 }
end

-- Makes `hold` last for `ttl` ms from `now` at least.
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
