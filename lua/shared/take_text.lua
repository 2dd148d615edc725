-- shared/take_text: a claim leaves a string key, see shared/holder and shared/cooldown.

-- Takes `claim` out of the string at `key`, and keeps the name from others for `keep` ms more. Whether the claim was there, or
-- had left already; for how long the name stays kept, ms; whether the waiters were told of a change, on `channel`. The last
-- value is any error of the server but another type's, to be returned as it is.
local function take_text(key, claim, keep, channel)
  local holder, fault = read_claim(key, AS_A_WRITE)
  if fault then
    return false, 0, '1', fault
  end
  local whose, state = claim_in(holder)
  if whose ~= claim then
    return false, 0, '1'
  end
  if keep > 0 then
    local told = keep_text(key, claim, state, keep, channel)
    return true, redis.call('PTTL', key), told
  end
  redis.call('DEL', key)
  return true, 0, wake(channel, 'free')
end
