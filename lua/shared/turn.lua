-- shared/turn: the waiters of a name of one owner at a time take turns, see shared/queue and shared/hold.

-- Drops the dead in front of the queue of `name`; if nobody holds it the first waiter alive becomes the holder for one waiter
-- ttl of its own at least, and its client is told. '0' if the server refused that message.
local function advance(name)
  if not name.held or not name.queued or not name.waits then
    return '1'
  end
  local told = '1'
  local claim, request, _, ends = next_waiter(name)
  if claim and not name.held.taken and name.fenced then
    withdraw(name, claim)
    grant(name, claim, owner_of(claim), first_hold(name, ends))
    told = tell_granted(name, claim, name.held.token, request)
  end
  if name.waits then
    mark_seen(name)
  end
  return told
end
