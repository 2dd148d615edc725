-- shared/redisson_rwlock: the key of Redisson's RReadWriteLock, a HASH: `mode`, read or write; and the fields of those that hold -> how often: an
-- owner that reads, an owner that writes with `:write` behind it. While the name is in cooldown the one field is the released claim. A number in
-- it that is no count would stop a server, because Redisson counts down from it.
--
-- Data about our claims is in `claims`, a HASH beside it. A field under which claims of ours are counted -> its hold, `<part of a claim> <token>`, named
-- by the claim that began it, with ` r` behind it once it is revoked; a counted claim -> the same text. So claims of a hold that Java took by force
-- count for nothing when their owner holds anew through us. `read` is the token of those that read at one time; `kept`, the server's ms at which the cooldown
-- after the hold ends; `cooling`, the claim that the name is kept for.

-- The field of `owner` in a mode.
local function field_of(owner, mode)
  return mode == 'write' and string.format('%s:write', owner) or owner
end

-- The token of a hold; what follows it if it is revoked, else ''. Nil if it is no hold.
local function token_of(hold)
  return string.match(hold or '', '^%x* (%d+)( ?r?)$')
end

-- What is known of `claim` in a mode: its `field`; the `count` of it at `main`, false for none, nil if a key has another type; the `hold` of ours
-- under it with its `token`; `own`, the token of the claim, if it is counted; `outer`, the hold of its owner's writes; `read` and `cooling`. The
-- second value is any other error of the server, to be returned as it is. With `writes`, the read counts as a write, see shared/record.
local function read_share(main, claims, claim, mode, writes)
  local owner = owner_of(claim)
  local field = field_of(owner, mode)
  local count, fault = read_field(main, field, writes)
  local facts = count ~= nil and redis.pcall('HMGET', claims, claim, field, field_of(owner, 'write'), 'read', 'cooling') or {}
  if facts.err then
    count, fault = nil, not string.find(facts.err, 'WRONGTYPE', 1, true) and facts or fault
    facts = {}
  end
  local hold = count and facts[2]
  local token, revoked = token_of(hold)
  local known = { count = count, field = field, hold = hold, token = token, revoked = revoked == ' r' }
  known.own, known.outer, known.read, known.cooling = facts[1] == hold and token, facts[3], facts[4], facts[5]
  return known, fault
end

-- How often `owner` holds at `main`, a HASH or nothing, in either mode.
local function holds_of(main, owner)
  local counts = redis.call('HMGET', main, owner, field_of(owner, 'write'))
  return (tonumber(counts[1] or '') or 0) + (tonumber(counts[2] or '') or 0)
end

-- Makes the name's keys live for at least `ttl` ms: `claims` as long as `main`, or what is counted there would be known no more; and if it reads,
-- `timeout`, by which Redisson sees for how long the reads of its owner last.
local function arm_share(main, claims, timeout, mode, ttl)
  arm(main, ttl)
  arm(claims, math.max(ttl, redis.call('PTTL', main)))
  if mode ~= 'write' and ttl > 0 and redis.call('PTTL', timeout) < ttl then
    redis.call('SET', timeout, '1', 'PX', string.format('%.0f', ttl))
  end
end
