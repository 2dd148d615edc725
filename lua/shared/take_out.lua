-- shared/take_out: a claim leaves a HASH of claims, see shared/holders.

-- Takes `claim` out of what was read of `key`, and all that is left with the last one; for `keep` ms more the name is kept
-- from others. Whether the claim was there and alive, or had left already; how many of its owner's are; for how long the
-- name stays kept, ms, if none is; whether the waiters were told of a change, on `channel` if they listen to one for all.
local function take_from(held, key, claim, now, keep, channel)
  local lease = held.leases[claim]
  if not lease then
    local rest = held.owner == string.match(claim, '^(.*)/') and held.alive or 0
    local left = held.kept[claim] and rest == 0 and math.max(held.ends - now, 0) or 0
    return held.kept[claim] ~= nil, rest, left, '1'
  end
  local alive = lease > now
  local rest = held.alive - (alive and 1 or 0)
  redis.call('HDEL', key, claim)
  if alive and keep > 0 then
    redis.call('HSET', key, string.format('kept:%s', claim), string.format('%.0f', now + keep))
    arm(key, keep)
    held.kept[claim] = now + keep
  end
  local left = 0
  for _, ends in pairs(held.kept) do
    left = math.max(left, ends - now)
  end
  held.taken = rest > 0 or left > 0
  if rest > 0 then
    return alive, rest, 0, '1'
  end
  if left > 0 then
    -- The end of a lease that is over must not keep the name from other kinds.
    redis.call('PEXPIRE', key, string.format('%.0f', left))
    return alive, 0, left, channel and wake(channel, 'kept') or '1'
  end
  redis.call('DEL', key)
  return alive, 0, 0, channel and wake(channel, 'free') or '1'
end

-- The same, read first. The last value as the second of read_holders.
local function take_out(key, kind, claim, now, keep, channel)
  local held, fault = read_holders(key, kind, now, true)
  if not held then
    return false, 0, 0, '1', fault
  end
  return take_from(held, key, claim, now, keep, channel)
end
