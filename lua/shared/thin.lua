-- shared/thin: removes a claim that is alone under its main key, see shared/value.

-- Deletes the `value` of `claim` at `key`, or puts it into cooldown for `cooldown` ms, and tells the pollers. Returns whether the claim was there,
-- how many ms of its cooldown are left, and '0' if the server refused the message.
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
  write_value(key, true, value_of(kind, share, claim, token, polled and 'cp' or 'c'), cooldown)
  return true, cooldown, polled and wake(channel, 'kept') or '1'
end
