-- shared/redisson_rwlock: the main key of Redisson's RReadWriteLock, a HASH: `mode`, read or write; and a field for each hold -> how often it is held.
-- The field is the owner for reads, and `<owner>:write` for writes. While the name is in cooldown, the one field beside `mode` is the released claim.
-- No field may contain a number that is not a count: Redisson's scripts count down from it, and a large one would block the server.
--
-- The data about our claims is in `claims`, a HASH beside it. A field that counts claims of ours -> its hold, `<part of a claim> <token>`: a part of
-- the claim that began it, followed by ` r` once it is revoked. Each counted claim -> the same text. So if Java takes a hold by force and the owner
-- holds again through us, the claims of the old hold no longer count. `read` is the token that simultaneous readers share; `kept`, when the
-- cooldown after the hold ends, server ms; `cooling`, the released claim of the cooldown.

-- The field of `owner` in a mode.
local function field_of(owner, mode)
  return mode == 'write' and string.format('%s:write', owner) or owner
end

-- The token of a hold, and ' r' if the hold is revoked, otherwise ''. Nil if the text is no hold.
local function token_of(hold)
  return string.match(hold or '', '^%x* (%d+)( ?r?)$')
end

-- Whether `claims` is the data about our claims, or absent: nothing else.
local function are_claims(claims)
  local type_of = redis.call('TYPE', claims).ok
  return type_of == 'hash' or type_of == 'none'
end

-- Reads the data about `claim` in a mode: its `field`; `count`, that of the field at `main`, false if there is none, nil if a key has another type;
-- `hold`, of our claims in that field, its `token`, and whether it is `revoked`; `own`, the token of `claim`, if it is counted; `outer`, the hold
-- of its owner's writes; `read` and `cooling`. The second value is any other error of the server, to be returned as it is. With `writes`, the
-- read counts as a write, see shared/record.
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

-- How often `owner` holds at `main`, a HASH or absent, in both modes together.
local function holds_of(main, owner)
  local counts = redis.call('HMGET', main, owner, field_of(owner, 'write'))
  return (tonumber(counts[1] or '') or 0) + (tonumber(counts[2] or '') or 0)
end

-- Makes the name's keys live for at least `ttl` ms. `claims` lives at least as long as `main`, which counts its claims. For a read, `timeout` is
-- extended too, the key by which Redisson sees how long the owner's reads last.
local function arm_share(main, claims, timeout, mode, ttl)
  arm(main, ttl)
  arm(claims, math.max(ttl, redis.call('PTTL', main)))
  if mode ~= 'write' and ttl > 0 and redis.call('PTTL', timeout) < ttl then
    redis.call('SET', timeout, '1', 'PX', string.format('%.0f', ttl))
  end
end
