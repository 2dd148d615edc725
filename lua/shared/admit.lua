-- shared/admit: claims come to stand under a name, go on, and leave, see shared/standing.

-- Writes what the value of `name` says of one claim into the keys of many. Whatever stood in those is of a time before.
local function inflate(name)
  local alone = name.alone
  name.alone, name.inflated, name.changed, name.fresh = nil, true, true, true
  redis.call('DEL', name.holders, name.queue, name.state)
  if not alone then
    return
  end
  put(name, alone.ends, member_of(alone.flag, alone.share, alone.claim))
  name.longest = math.max(name.longest or 0, alone.ends - name.now)
  if alone.share ~= 'x' and alone.flag ~= 'c' then
    own(name, alone.claim, 1, alone.token)
  end
end

-- Lets `claim`, which does not stand there, hold `name` for `ttl` ms; its token.
local function admit(name, share, claim, ttl)
  if not name.alone and not name.inflated then
    local token = draw_token(name.counter, name.floor, name.now_us)
    redis.call('SET', name.main, value_of(name.kind, share, claim, token, name.polled and 'p' or ''), 'PX', text_of(ttl))
    return token
  end
  if name.alone then
    inflate(name)
  end
  local shared = share == 'x' or name.reenters
  local token = shared and name.token or draw_token(name.counter, name.floor, name.now_us)
  name.token = shared and token or nil
  if not is_taken(name) then
    -- Whatever lies there the marker does not count: a node of a cluster may have kept it from a time when it had the slot before.
    redis.call('DEL', name.holders)
    name.emptied = true
  end
  name.changed = true
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

-- Lets `claim`, which holds `name` until `ends`, hold it for `ttl` ms at least.
local function go_on(name, share, claim, ends, ttl)
  if name.alone then
    arm(name.main, ttl)
  else
    put(name, math.max(ends, name.now + ttl), member_of('', share, claim))
    name.longest = math.max(name.longest or 0, ttl)
  end
end

-- Takes `claim` out of the inflated `name`, and lets it stand as one that has left for `cooldown` ms more. Whether it held, or had left
-- already; and for how long it stands as that, or others of an owner that now has left altogether.
local function dismiss(name, share, claim, cooldown)
  local ends, flag = lease_of(name, share, claim)
  if ends <= name.now or flag == 'c' then
    return ends > name.now, math.max(ends - name.now, 0)
  end
  if cooldown > 0 then
    -- First what is added: a key that was empty for a moment would have no end.
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
  name.cools = share == 'x' and name.live == 0 and name.exclusive > 0
  return true, name.cools and left_of(name) or cooldown
end
