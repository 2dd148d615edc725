-- shared/holders: the claims of one owner in a HASH. Beside the facts each field is a claim, and its value the server time
-- in ms at which that claim's own lease ends. A claim is alive until then, whatever the key's ttl. A field `kept:<claim>` is a
-- claim that has left and keeps the name from others until then. The fact `revoked` says that all of them are revoked.

local FACTS = { kind = true, owner = true, token = true, revoked = true }

-- For the reader of a HASH of any kind.
local ANY_KIND = '*'

-- Reads the HASH at `key` as of `now` ms: owner, token, revoked, each claim's end in `leases` and `kept`, how many are
-- `alive`, whether the name is `taken` by them or kept, when the last of that `ends`, and which fields are `dead`. A key that
-- is not there holds nothing; nil if the key holds something else than this kind's data. The second value is any other
-- error of the server, to be returned as it is. Read `as_a_write`, it begins with one that changes nothing: a replica
-- refuses it, and a full server lets the writes behind it pass.
local function read_holders(key, kind, now, as_a_write)
  local fields = as_a_write and redis.pcall('HDEL', key, 'lockkeeper.no-field')
  if type(fields) ~= 'table' then
    fields = redis.pcall('HGETALL', key)
  end
  if fields.err then
    return nil, not string.find(fields.err, 'WRONGTYPE', 1, true) and fields or nil
  end
  local held = { alive = 0, ends = 0, leases = {}, kept = {}, dead = {} }
  for i = 1, #fields, 2 do
    local field, value = fields[i], fields[i + 1]
    if FACTS[field] then
      held[field] = value
    else
      local ends = tonumber(value) or 0
      local left = string.match(field, '^kept:(.*)')
      if left then
        held.kept[left] = ends
      else
        held.leases[field] = ends
        held.alive = held.alive + (ends > now and 1 or 0)
      end
      held.ends = math.max(held.ends, ends)
      if ends <= now then
        held.dead[#held.dead + 1] = field
      end
    end
  end
  held.taken = held.ends > now
  local whole = held.kind and held.owner and held.token
  local ours = whole and kind == ANY_KIND or held.kind == kind
  return (#fields == 0 or ours) and held or nil
end
