-- shared/redisson: what stands under a name of Redisson's RLock, a HASH of one field: the owner, `<uuid>:<number>`, and how often it holds. Of a
-- name that cools down the field is the claim that has left. Nothing of ours may be in it: Redisson counts what it finds there.
--
-- What is known of our claims lies beside it in `claims`, a HASH: each claim that is counted -> its token; `token` of the hold, and `fenced`, that
-- of an RFencedLock; `owner`; `first`, the claim that began the hold, if it was ours; `kept`, the server's ms until which the name is kept behind it;
-- `revoked`, if it is to end. It means nothing but beside a hold of that owner: Java takes a name without emptying it.

-- What belongs to `field` of the HASH at `key`, or false; nil if the key holds another type. The second value is any other error of the
-- server, to be returned as it is. Of one that `writes`, it counts as a write, see shared/record.
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

-- Whether one owner holds at `key`, a HASH or nothing, as Redisson writes it: not if there is something else.
local function is_held(key)
  return redis.call('HLEN', key) == 1 and string.find(redis.call('HVALS', key)[1], '^%d+$') ~= nil
end

-- What is known of `claim`: how often its owner holds at `main`, as by read_field; and if claims of the same owner are counted there, its own
-- token, those of the hold, and whether that is to end. Another type under `claims` says nothing of any claim.
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
