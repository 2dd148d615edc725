-- shared/holders: the claims of one owner in a HASH. Beside `kind`, `owner` and `token` each field is a claim, and its
-- value the server time in ms at which that claim's own lease ends. A claim is alive until then, whatever the key's ttl.

local FACTS = { kind = true, owner = true, token = true }

-- Reads the HASH at `key` as of `now` ms: owner, token, each claim's end in `leases`, how many are `alive`, when the last
-- of them `ends`, and whether only dead ones are left (`stale`). A key that is not there holds nothing; nil if the key
-- holds something else than this kind's data. The second value is any other error of the server, to be returned as it is.
-- Read `as_a_write`, it begins with one that changes nothing: a replica refuses it, and a full server lets the writes behind
-- it pass.
local function read_holders(key, kind, now, as_a_write)
  local fields = as_a_write and redis.pcall('HDEL', key, 'lockkeeper.no-field')
  if type(fields) ~= 'table' then
    fields = redis.pcall('HGETALL', key)
  end
  if fields.err then
    return nil, not string.find(fields.err, 'WRONGTYPE', 1, true) and fields or nil
  end
  local held = { alive = 0, ends = 0, leases = {} }
  for i = 1, #fields, 2 do
    if FACTS[fields[i]] then
      held[fields[i]] = fields[i + 1]
    else
      local lease = tonumber(fields[i + 1]) or 0
      held.leases[fields[i]] = lease
      if lease > now then
        held.alive = held.alive + 1
        held.ends = math.max(held.ends, lease)
      end
    end
  end
  held.stale = #fields > 0 and held.alive == 0
  return (#fields == 0 or held.kind == kind) and held or nil
end

-- Takes `claim` out as of `now` ms, and all that is left with the last one alive. First whether the claim was alive, then
-- how many of its owner are, then whether the name became free by this. The last value as the second of read_holders.
local function take_out(key, kind, claim, now)
  local held, fault = read_holders(key, kind, now, true)
  if not held then
    return false, 0, false, fault
  end
  local mine = held.owner == string.match(claim, '^(.*)/')
  local lease = held.leases[claim]
  if not lease then
    return false, mine and held.alive or 0, false
  end
  local alive = lease > now
  local rest = held.alive - (alive and 1 or 0)
  if rest == 0 then
    redis.call('DEL', key)
  else
    redis.call('HDEL', key, claim)
  end
  return alive, rest, rest == 0
end
