-- shared/wake: tells the waiters of a name to look again. A server that refuses the message (no right to publish) must
-- not undo or hide what the script has already done, so the refusal is a flag in the reply.

-- Publishes on `channel`; '1' when the server took the message, '0' when it refused.
local function wake(channel, message)
  local told = redis.pcall('SPUBLISH', channel, message)
  return type(told) == 'table' and told.err and '0' or '1'
end
