-- shared/tell: sends a client a message about one of its claims, on a channel of the client. The channel belongs to no name, so the client
-- receives it wherever in a cluster it listens. A refusal is not reported: the holder learns the news at its next renewal.

-- Tells the client of `claim`, if the claim is one of this library: others have no such channel.
local function tell_client(claim, message)
  local client = client_of(claim)
  if client then
    redis.pcall('PUBLISH', string.format('lockkeeper.client:%s', client), message)
  end
end
