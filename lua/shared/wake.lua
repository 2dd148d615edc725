-- shared/wake: wakes the waiters of a name. If the server refuses the message (no right to publish), what the script has
-- already done must neither be undone nor hidden, so the refusal is a flag in the reply.

-- Publishes on `channel`; '1' if the server took the message, '0' if it refused.
local function wake(channel, message)
  local told = redis.pcall('PUBLISH', channel, message)
  return type(told) == 'table' and told.err and '0' or '1'
end
