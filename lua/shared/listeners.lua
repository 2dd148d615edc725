-- shared/listeners: counts the listeners of a name's channel.

-- How many clients listen on `channel`; negative if the server does not say.
local function listeners(channel)
  return redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or -1
end
