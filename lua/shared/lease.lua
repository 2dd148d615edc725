-- shared/lease: arming an expiry. Nobody shortens: a key's time left only ever grows here.

-- Lets `key`, which exists, live for at least `ttl` ms from now.
local function arm(key, ttl)
  if redis.call('PTTL', key) < ttl then
    redis.call('PEXPIRE', key, string.format('%.0f', ttl))
  end
end
