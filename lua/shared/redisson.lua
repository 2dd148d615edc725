-- shared/redisson: the main key of Redisson's RLock, a HASH with one field: the owner, `<uuid>:<number>`, and how often it holds. While the name
-- is in cooldown, the field is the released claim. The HASH must contain nothing else of ours, because Redisson counts its fields.
--
-- The data about our claims is in `claims`, a HASH beside it: each counted claim -> its token; `token`, of the hold, and `fenced`, that
-- of an RFencedLock; `owner`; `first`, the claim that began the hold, if it is ours; `kept`, when the cooldown after the hold ends, server ms;
-- `revoked`, if the hold is revoked. It is valid only while that owner holds, because Java acquires a name without deleting this HASH.

-- The value of `field` of the HASH at `key`, or false; nil if the key has another type. The second value is any other error of the
-- server, to be returned as it is. With `writes`, the read counts as a write, see shared/record.
local function read_field(key, field, writes)
  local value = writes and redis.pcall('HDEL', key, 'lockkeeper.none') or 0
  if type(value) == 'number' then
    value = redis.pcall('HGET', key, field)
  end
  if type(value) ~= 'table' then
    return value
  end
  return nil, not string.find(value.err, 'WRONGTYPE', 1, true) and value or nil
end

-- Whether `key`, a HASH or nothing, is held by one owner in Redisson's format; false if it contains anything else.
local function is_held(key)
  return redis.call('HLEN', key) == 1 and string.find(redis.call('HVALS', key)[1], '^%d+$') ~= nil
end

-- Reads the data about `claim`: `count`, how often its owner holds at `main`, as returned by read_field. If claims of that owner are counted, also
-- `own`, the token of `claim`; the tokens of the hold; and whether it is `revoked`. If `claims` has another type, no claim is counted.
local function read_claim(main, claims, claim, writes)
  local count, fault = read_field(main, owner_of(claim), writes)
  local facts = count and redis.pcall('HMGET', claims, claim, 'owner', 'token', 'fenced', 'revoked') or {}
  if facts.err then
    fault = not string.find(facts.err, 'WRONGTYPE', 1, true) and facts or fault
  end
  if facts[2] ~= owner_of(claim) then
    facts = {}
  end
  return { count = count, own = facts[1], stands = facts[2], token = facts[3], fenced = facts[4], revoked = facts[5] }, fault
end
