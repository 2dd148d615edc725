-- shared/member: the lease of one claim in a HASH of claims, without reading the others.

-- When the lease of `claim` ends, server ms; 0 if it is not there. Begins with a write that changes nothing, so a replica
-- refuses it, and a full server lets the writes behind it pass. The second value is any error of the server but another
-- type's, to be returned as it is.
local function read_lease(key, claim)
  local lease = redis.pcall('HDEL', key, 'lockkeeper.no-field')
  if type(lease) ~= 'table' then
    lease = redis.pcall('HGET', key, claim)
  end
  if type(lease) == 'table' then
    return 0, not string.find(lease.err, 'WRONGTYPE', 1, true) and lease or nil
  end
  return tonumber(lease or 0) or 0
end
