-- shared/heartbeat: keeps a waiting claim alive, see shared/queue.

-- Notes that `claim` is alive at this `request`. If it or its owner holds already, grants `name` to it for `ttl` ms. `entry` is the entry
-- of its place in the queue, if it has one. Returns the outcome.
local function beat(name, share, claim, ttl, entry, request)
  local member = member_of('', share, claim)
  local place, alive_until = place_of(name, member, entry)
  if place and is_nested(name, share, claim) then
    withdraw(name, member)
    return { 'GRANTED', admit(name, share, claim, ttl) }
  end
  if place then
    hear(name, claim, request, alive_until)
    return name.more and 'MORE' or { 'WAITING', place, place == 1 and first_end(name) or nil }
  end
  -- No claim waits and holds at once.
  local ends, flag = lease_of(name, share, claim)
  if ends > name.now and flag == 'r' then
    return 'REVOKED'
  end
  if ends > name.now and flag == '' then
    go_on(name, share, claim, ends, ttl)
    return { 'GRANTED', token_of(name, share, claim) }
  end
  return 'GONE'
end
