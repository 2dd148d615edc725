-- shared/reader: the lease of one claim among the readers of a name, see shared/readers, without the others.

-- When the lease of `claim` ends, server ms, 0 if it is not there; and whether it is revoked. Begins with a write that changes
-- nothing, so a replica refuses it, and a full server lets the writes behind it pass. The third value is any error of the
-- server but another type's, to be returned as it is.
local function read_reader(key, claim)
  local found = redis.pcall('ZREM', key, 'lockkeeper.no-member')
  if type(found) ~= 'table' then
    found = redis.pcall('ZMSCORE', key, claim, 'revoked')
  end
  if found.err then
    return 0, false, not string.find(found.err, 'WRONGTYPE', 1, true) and found or nil
  end
  return tonumber(found[1] or 0), found[2]
end
