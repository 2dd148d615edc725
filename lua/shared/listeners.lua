-- shared/listeners: who listens on a channel of a name.

-- How many clients listen on `channel`, negative if the server does not say.
local function listeners(channel)
  return redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or -1
end
