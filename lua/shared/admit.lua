-- shared/admit: claims come to stand under a name, go on, and leave, see shared/standing.

-- Writes what the value of `name` says of one claim into the keys of many. Whatever stood in those is of a time before.
local function inflate(name)
  local alone = name.alone
  name.alone, name.inflated, name.changed, name.fresh = nil, true, true, true
  redis.call('DEL', name.holders, name.queue, name.state)
  if not alone then
    return
  end
  redis.call('ZADD', name.holders, text_of(alone.ends), member_of(alone.flag, alone.share, alone.claim))
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
  name.fresh, name.changed = name.fresh or not is_taken(name), true
  if share == 'x' then
    name.exclusive, name.live, name.owner = name.exclusive + 1, name.live + 1, owner_of(claim)
  else
    name.parts, token = name.parts + tonumber(share), own(name, claim, 1, token)
  end
  redis.call('ZADD', name.holders, text_of(name.now + ttl), member_of('', share, claim))
  name.longest = math.max(name.longest or 0, ttl)
  return token
end

-- Lets `claim`, which holds `name` until `ends`, hold it for `ttl` ms at least.
local function go_on(name, share, claim, ends, ttl)
  if name.alone then
    arm(name.main, ttl)
  else
    ends = text_of(math.max(ends, name.now + ttl))
    redis.call('ZADD', name.holders, ends, member_of('', share, claim))
    name.longest = math.max(name.longest or 0, ttl)
  end
end

-- Takes `claim` out of the inflated `name`, and lets it stand as one that has left for `cooldown` ms more. Whether it held, or had left
-- already; and for how long it stands as that.
local function dismiss(name, share, claim, cooldown)
  local ends, flag = lease_of(name, share, claim)
  if ends <= name.now or flag == 'c' then
    return ends > name.now, math.max(ends - name.now, 0)
  end
  redis.call('ZREM', name.holders, member_of(flag, share, claim))
  uncount(name, flag, share, claim)
  if cooldown > 0 then
    -- It may have been the last in there.
    name.fresh = true
    redis.call('ZADD', name.holders, text_of(name.now + cooldown), member_of('c', share, claim))
    name.exclusive = name.exclusive + (share == 'x' and 1 or 0)
    name.parts = name.parts + (share == 'x' and 0 or tonumber(share))
    name.longest = math.max(name.longest or 0, cooldown)
  end
  return true, cooldown
end
