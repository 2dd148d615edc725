-- shared/redisson: what stands under a name of Redisson's RLock, a HASH of one field: the owner, `<uuid>:<number>`, and how often it holds. Of a
-- name that cools down the field is the claim that has left. Nothing of ours may be in it: Redisson counts what it finds there.
--
-- What is known of our claims lies beside it in `claims`, a HASH: each claim that is counted -> its token; `token` of the hold; `first`, the
-- claim that began it; `kept`, the server's ms until which the name is kept behind it; `revoked`, if it is to end. It means nothing but
-- beside a hold of the same owner: whoever takes a free name empties it.

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

-- The claim that `count` holds of an owner are counted for, as far as they are known in `claims`: what it has been given, its hold's token,
-- and whether that is to end.
local function counted(claims, claim, count)
  if count then
    local facts = redis.call('HMGET', claims, claim, 'token', 'revoked')
    return facts[1], facts[2], facts[3]
  end
  return false, false, false
end
