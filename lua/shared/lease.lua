-- shared/lease: extends an expiry. Never shortens one: the time left of a key only grows here.

-- Makes `key`, which exists, live for at least `ttl` ms from now.
local function arm(key, ttl)
  if redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, string.format('%.0f', ttl))
  end
end
