-- shared/redisson_told: tells those who wait for a name of Redisson's RLock or RFairLock that it may be free.

-- The channel that tells the waiter of `owner` that its turn may have come.
local function channel_to(channel, owner)
  return string.format('%s:%s', channel, owner)
end

-- The first in the queue of an RFairLock, false if nobody waits there; nil if the script has not looked.
local first_in_line

-- Tells the first in the queue if the script is that of an RFairLock. Otherwise tells all who listen on `channel`, and the first in the `queue`, if
-- the name has one: that waiter listens on a channel of its own. Returns '0' if the server refused a message.
local function tell_waiters(channel, queue)
  if first_in_line then
    return wake(channel_to(channel, first_in_line), '0')
  end
  local told, first = wake(channel, '0'), first_in_line == nil and redis.pcall('LINDEX', queue, '0')
  return type(first) == 'string' and wake(channel_to(channel, first), '0') == '0' and '0' or told
end
