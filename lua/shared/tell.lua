-- shared/tell: tells a client about a claim of its own, on a channel of the client, which belongs to no name: wherever the
-- client listens in a cluster, it hears. A refusal is nobody's to report: the holder learns by its next renewal.

-- Tells the client of `claim`, if it is a claim of ours: others have no such channel.
local function tell_client(claim, message)
  local client = client_of(claim)
  if client then
    redis.pcall('PUBLISH', string.format('lockkeeper.client:%s', client), message)
  end
end
