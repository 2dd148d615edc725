-- shared/several: names of mutexes and re-entrant locks that are taken together. A `name` here has its `kind`, its keys `main`
-- and `fence`, the `floor` of tokens, and the time, `now_us` in µs and `now` in ms.

-- What keeps `claim` from the string `name`; nothing if it can hold it, or does. The second value is any other error of the
-- server, to be returned as it is.
local function text_refusal(name, claim)
  local holder, fault = read_claim(name.main, 'GET')
  if fault then
    return nil, fault
  end
  if holder == nil then
    return 'WRONG_KIND'
  end
  name.holds = holder == claim
  local whose, state = claim_in(holder)
  if whose == claim and state == 'revoked' then
    return 'REVOKED'
  end
  return holder and not name.holds and { 'BUSY', redis.call('PTTL', name.main) } or nil
end

-- The same of the HASH of claims `name`.
local function hash_refusal(name, claim)
  local held, fault = read_holders(name.main, name.kind, name.now)
  if fault then
    return nil, fault
  end
  if not held then
    return 'WRONG_KIND'
  end
  name.held = held
  if held.revoked and (held.leases[claim] or 0) > name.now then
    return 'REVOKED'
  end
  return held.taken and not lets_in(name, owner_of(claim)) and { 'BUSY', held.ends - name.now } or nil
end

-- The same of a `name` of either kind; `gone` is the tombstone of a release that overtook an acquire of this claim. Afterwards
-- nothing that `take` does can fail.
local function refusal(name, claim, gone)
  local last = redis.pcall('GET', name.fence)
  if type(last) == 'table' and not string.find(last.err, 'WRONGTYPE', 1, true) then
    return nil, last
  end
  local read = name.kind == 'mutex' and text_refusal or hash_refusal
  local outcome, fault = read(name, claim)
  if outcome or fault then
    return outcome, fault
  end
  name.fenced = type(last) ~= 'table'
  if not name.fenced then
    return 'WRONG_KIND'
  end
  return redis.call('EXISTS', gone) == 1 and 'GONE' or nil
end

-- Makes `claim` a holder of `name`, from which nothing keeps it, for `ttl` ms at least; its token.
local function take(name, claim, ttl)
  if name.kind == 'mutex' and name.holds then
    arm(name.main, ttl)
    arm(name.fence, fence_memory(ttl))
    return redis.call('GET', name.fence) or draw_token(name.fence, name.floor, ttl, name.now_us)
  end
  if name.kind == 'mutex' then
    local token = draw_token(name.fence, name.floor, ttl, name.now_us)
    redis.call('SET', name.main, claim, 'PX', string.format('%.0f', ttl))
    return token
  end
  if name.held.taken then
    hold(name, claim, ttl)
  else
    grant(name, claim, owner_of(claim), ttl)
  end
  return name.held.token
end
