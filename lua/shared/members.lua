-- shared/members: the claims under an inflated name and their counts, see shared/standing.

local function text_of(number)
  return string.format('%.0f', number)
end

-- The flag, the share and the claim of a member of `holders` or of the queue; nil for an invalid member.
local function parts_of(member)
  local flag, share, claim = string.match(member, '^([rc]?)([x%d/]+):(.*)$')
  if share == 'x' or weight_of(share) then
    return flag, share, claim
  end
end

-- The member of `holders` for a claim; without a flag, also the member of the queue.
local function member_of(flag, share, claim)
  return flag .. share .. ':' .. claim
end

-- The field of `state` that counts a claim that takes parts.
local function own_field(name, claim)
  claim = name.reenters and owner_of(claim) or claim
  return 'o:' .. claim
end

-- The token and the number of the claims that are counted together with `claim`, which takes parts. Adds `more` to that number. The claims
-- keep their token; if there were none, the token is the given one.
local function own(name, claim, more, token)
  local field = own_field(name, claim)
  local found = redis.pcall('HGET', name.state, field) or ''
  -- If the key has another type, it counts no claims.
  if found.err then
    return token, math.max(more, 0)
  end
  local claims, of_old = string.match(found, '^(%d+) (%d+)$')
  local count = tonumber(claims or 0) + more
  token = of_old or token
  if more ~= 0 and count > 0 then
    local added = redis.call('HSET', name.state, field, string.format('%.0f %s', count, token))
    -- The first field creates the key, which then has no expiry.
    name.fresh = name.fresh or added == 1 and redis.call('PTTL', name.state) < 0
  elseif more ~= 0 then
    redis.call('HDEL', name.state, field)
  end
  return token, count
end

-- Extends the life of the keys of the inflated `name`. All are extended together, the marker last, so that it expires last; a `holders` key that
-- was just created expires with the marker. Renewals do not extend the queue, nor, for claims that take all of the name, the state. So these
-- keys may expire before the marker.
local function keep(name)
  local life, least = math.max(MEMORY, name.longest or 0), name.waits and name.queue or (name.parts or 0) > 0 and name.state
  local keys = name.emptied and { name.holders, name.main }
  local left = name.left or 0
  if name.fresh or left < life or least and redis.call('PTTL', least) < life then
    keys, left = { name.holders, name.state, name.queue or name.holders, name.main }, math.max(left, life, 2 * MEMORY)
  end
  for _, key in ipairs(keys or {}) do
    redis.call('PEXPIRE', key, text_of(left))
  end
end

-- Removes a claim from the counts; flag and share are those of its member. Does nothing for an invalid member, which was never counted.
local function uncount(name, flag, share, claim)
  name.changed = true
  if share == 'x' then
    name.exclusive = math.max(name.exclusive - 1, 0)
    name.live = math.max(name.live - (flag == 'c' and 0 or 1), 0)
  elseif share then
    name.parts = math.max(name.parts - weight_of(share), 0)
    if flag ~= 'c' then
      own(name, claim, -1)
    end
  end
  name.owner = name.live > 0 and name.owner or nil
  if name.exclusive == 0 and (share == 'x' or name.parts == 0) then
    name.token = nil
    name.revoked = name.revoked and name.parts > 0
  end
end
