-- shared/heartbeat: a claim that waits says that it is alive, see shared/queue.

-- Notes that `claim` is alive, as this `request` says, or lets it hold `name` for `ttl` ms if it does already or its owner does. `entry`
-- is that of its place in the queue, if it has one. What it is answered.
local function beat(name, share, claim, ttl, entry, request)
  local ends, flag = lease_of(name, share, claim)
  if ends > name.now and flag == 'r' then
    return 'REVOKED'
  end
  if ends > name.now and flag == '' then
    go_on(name, share, claim, ends, ttl)
    return { 'GRANTED', token_of(name, share, claim) }
  end
  local member = member_of('', share, claim)
  local place = place_of(name, member, entry)
  if place and is_nested(name, share, claim) then
    withdraw(name, member)
    return { 'GRANTED', admit(name, share, claim, ttl) }
  end
  if not place then
    return 'GONE'
  end
  -- Of a longer waiter ttl: nobody shortens.
  local alive = math.max(name.now + name.waiter_ttl, (read_waiter(entry)))
  redis.call('HSET', name.state, claim, string.format('%.0f:%s', alive, request))
  return name.more and 'MORE' or { 'WAITING', place, place == 1 and first_end(name) or nil }
end
