-- shared/admit: adds, prolongs and removes a claim under a name, see shared/standing.

-- Inflates `name`, which one claim holds alone: moves its data from the value into the other keys. Anything in those keys is old and is deleted.
local function inflate(name)
  local alone = name.alone
  name.alone, name.inflated, name.changed, name.fresh = nil, true, true, true
  write_value(name.main, true, alone.value) -- Changes nothing, but needs memory, see shared/enter.
  redis.call('UNLINK', name.holders, name.queue, name.state)
  put(name, alone.ends, member_of(alone.flag, alone.share, alone.claim))
  name.longest = math.max(name.longest or 0, alone.ends - name.now)
  if alone.share ~= 'x' and alone.flag ~= 'c' then
    own(name, alone.claim, 1, alone.token)
  end
end

-- Grants `name` to `claim`, which is not there yet, for `ttl` ms. Its value takes the place of another one if that `stands`. Returns its token.
local function admit(name, share, claim, ttl)
  if not name.alone and not name.inflated then
    local token = draw_token(name.counter, name.floor, name.now_us)
    write_value(name.main, name.stands, value_of(name.kind, share, claim, token, name.polled and 'p' or ''), text_of(ttl))
    return token
  end
  if name.alone then
    inflate(name)
  end
  local shared = share == 'x' or name.reenters
  local token = shared and name.token or draw_again(name.counter, name.floor) or draw_token(name.counter, name.floor, name.now_us)
  name.token, name.changed = shared and token or nil, true
  if not is_taken(name) then
    -- The marker does not count what is in this key: a node of a cluster may still have it from an earlier time when it had the slot.
    redis.call('DEL', name.holders)
    name.emptied = true
  end
  if share == 'x' then
    name.exclusive, name.live, name.owner = name.exclusive + 1, name.live + 1, owner_of(claim)
  else
    name.parts, token = name.parts + weight_of(share), own(name, claim, 1, token)
    name.limit = name.limit or limit_of(share)
  end
  put(name, name.now + ttl, member_of('', share, claim))
  name.longest = math.max(name.longest or 0, ttl)
  return token
end

-- Extends the lease of `claim`, which holds `name` until `ends`, to at least `ttl` ms.
local function go_on(name, share, claim, ends, ttl)
  if name.alone then
    arm(name.main, ttl)
  else
    put(name, math.max(ends, name.now + ttl), member_of('', share, claim))
    name.longest = math.max(name.longest or 0, ttl)
  end
end

-- Removes `claim` from the inflated `name`, and puts it into cooldown for `cooldown` ms. Returns whether it held or was in cooldown already,
-- and the length of the cooldown: of this claim, or of the owner's claims if the owner now holds none.
local function dismiss(name, share, claim, cooldown)
  local ends, flag = lease_of(name, share, claim)
  if ends <= name.now or flag == 'c' then
    return ends > name.now, math.max(ends - name.now, 0)
  end
  if cooldown > 0 then
    -- Add first: if the key became empty for a moment, it would lose its expiry.
    put(name, name.now + cooldown, member_of('c', share, claim))
  end
  redis.call('ZREM', name.holders, member_of(flag, share, claim))
  name.first_end = nil
  uncount(name, flag, share, claim)
  if cooldown > 0 then
    name.exclusive = name.exclusive + (share == 'x' and 1 or 0)
    name.parts = name.parts + (weight_of(share) or 0)
    name.longest = math.max(name.longest or 0, cooldown)
  end
  if share == 'x' and name.live == 0 and name.exclusive > 0 then
    name.cools, cooldown = true, left_of(name)
  end
  return true, cooldown
end
