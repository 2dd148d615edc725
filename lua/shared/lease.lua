-- shared/lease: extends an expiry, and never shortens one.

-- Makes `key`, which exists, live for at least `ttl` ms from now. A key without an expiry gets one.
local function arm(key, ttl)
  if redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, string.format('%.0f', ttl))
  end
end
