-- shared/holding: who holds a name that has been read, see shared/standing, and which claims fit beside the holders.

-- Whether there is any claim under `name`.
local function is_taken(name)
  return name.exclusive > 0 or name.parts > 0
end

-- How long `name` stays taken unless leases are extended, ms; negative: without end.
local function left_of(name)
  if name.alone then
    return name.alone.left
  end
  local last = redis.call('ZRANGE', name.holders, '-1', '-1', 'WITHSCORES')
  return math.max(tonumber(last[2] or 0) - name.now, 0)
end

-- Adds `member` to the holders of the inflated `name`, or changes its end: its lease ends at `ends`, server ms.
local function put(name, ends, member)
  redis.call('ZADD', name.holders, text_of(ends), member)
  name.first_end = nil
end

-- When the lease of `claim` with this share ends, server ms, 0 if the claim is not under the name; and, if it is, its flag.
local function lease_of(name, share, claim)
  local alone = name.alone
  if alone then
    local same = alone.claim == claim and alone.share == share
    return same and alone.ends or 0, alone.flag
  end
  local member = member_of('', share, claim)
  local found = name.inflated and redis.call('ZMSCORE', name.holders, member, 'r' .. member, 'c' .. member) or {}
  for i, flag in ipairs({ '', 'r', 'c' }) do
    if found[i] then
      return tonumber(found[i]), flag
    end
  end
  return 0, ''
end

-- The token of `claim`, which holds `name` with this share.
local function token_of(name, share, claim)
  local shared = name.alone or share == 'x'
  return shared and name.token or own(name, claim, 0)
end

-- Whether the owner of `claim` holds all of `name` and may acquire it again: its kind allows that, and the hold is not revoked.
local function lets_in(name, claim)
  return name.reenters and name.owner == owner_of(claim) and not name.revoked
end

-- Whether a new claim with this share fits beside the claims under `name`.
local function fits(name, share)
  if share == 'x' or name.exclusive > 0 then
    return not is_taken(name)
  end
  return not name.revoked and name.parts + weight_of(share) <= (name.limit or limit_of(share) or math.huge)
end

-- The token of the claims with which the owner of `claim` holds parts of `name`, if any, and the number of these claims.
local function beside(name, claim)
  local alone = name.alone
  if not name.reenters or name.parts == 0 then
    return nil, 0
  elseif not alone then
    return own(name, claim, 0)
  end
  local same = alone.flag ~= 'c' and owner_of(alone.claim) == owner_of(claim)
  return same and alone.token or nil, same and 1 or 0
end

-- Whether `claim` may overtake the queue of `name`, because its owner holds already; and whether it would wait for its own owner.
local function is_nested(name, share, claim)
  if lets_in(name, claim) then
    return true
  end
  local of_owner = beside(name, claim)
  return share ~= 'x' and of_owner and not name.revoked, share == 'x' and of_owner
end
