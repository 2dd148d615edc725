-- shared/thin: the claim whose value stands alone under a main key leaves, see shared/value.

-- Deletes the `value` of `claim` at `key`, or lets it stand as that of one that has left, for `cooldown` ms more, and tells those who
-- poll it. Whether it was there; for how long it stands as one that has left; '0' if the server refused the message.
local function leave_alone(key, value, claim, cooldown, channel)
  local kind, share, whose, token, flags = claim_of(value)
  if whose ~= claim then
    return false, 0, '1'
  end
  local polled = string.find(flags, 'p', 1, true)
  if string.find(flags, 'c', 1, true) then
    return true, redis.call('PTTL', key), '1'
  end
  if cooldown == '0' then
    redis.call('DEL', key)
    return true, 0, polled and wake(channel, 'free') or '1'
  end
  redis.call('SET', key, value_of(kind, share, claim, token, polled and 'cp' or 'c'), 'PX', cooldown)
  return true, cooldown, polled and wake(channel, 'kept') or '1'
end
