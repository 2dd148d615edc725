-- shared/redisson: the key of Redisson's RLock, a HASH with one field: the owner, `<uuid>:<number>`, and how often it holds. While the name
-- is in cooldown, the field is the released claim. The HASH must contain nothing else of ours, because Redisson counts its fields.
--
-- Data about our claims is in `claims`, a HASH beside it: each counted claim -> its token; `token` of the hold, and `fenced`, that
-- of an RFencedLock; `owner`; `first`, the claim that began the hold, if it was ours; `kept`, the server's ms at which the cooldown after the hold
-- ends; `revoked`, if the hold is revoked. It counts only while that owner holds, because Java acquires a name without deleting it.

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

-- What is known of `claim`: how often its owner holds at `main`, as returned by read_field; and if claims of the same owner are counted there,
-- its own token, the tokens of the hold, and whether the hold is revoked. If `claims` has another type, nothing is known of any claim.
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
