-- shared/hold: a name of one owner at a time, for which others wait, see shared/queue. A `name` here has also its `kind`, its
-- keys `main` and `fence`, the stem `channel` of the channels on which clients are told of grants, and the `floor` of tokens.

-- Reads `name` as of `now_us`: `held`, nil if the main key holds another kind's data; whether it is `queued` and `fenced`,
-- false if the queue's keys or the fence hold another type. Any other error of the server, to be returned as it is.
local function read_name(name, now_us, as_a_write)
  name.now_us, name.now = now_us, math.floor(now_us / 1000)
  local held, fault = read_holders(name.main, name.kind, name.now, as_a_write)
  if fault then
    return fault
  end
  local last = redis.pcall('GET', name.fence)
  name.fenced = type(last) ~= 'table'
  if not name.fenced and not string.find(last.err, 'WRONGTYPE', 1, true) then
    return last
  end
  name.held = held
  name.queued, fault = read_queue(name)
  return fault
end

-- Makes `claim` the holder of `name`, which nobody holds, for `ttl` ms, with a new token.
local function grant(name, claim, owner, ttl)
  if #name.held.dead > 0 then
    redis.call('DEL', name.main)
  end
  local token = draw_token(name.fence, name.floor, ttl, name.now_us)
  local ends = name.now + ttl
  redis.call('HSET', name.main, 'kind', name.kind, 'owner', owner, 'token', token, claim, string.format('%.0f', ends))
  -- Whatever was there has ended.
  redis.call('PEXPIRE', name.main, string.format('%.0f', ttl))
  name.held = { owner = owner, token = token, alive = 1, taken = true, ends = ends, kept = {}, dead = {} }
  name.held.leases = { [claim] = ends }
end

-- Lets `claim` hold `name`, which its owner holds, for `ttl` ms at least, whether it did before, waited, or neither.
local function hold(name, claim, ttl)
  if name.waits then
    withdraw(name, claim)
  end
  local held = name.held
  for _, field in ipairs(held.dead) do
    redis.call('HDEL', name.main, field)
  end
  local ends = math.max(held.leases[claim] or 0, name.now + ttl)
  redis.call('HSET', name.main, claim, string.format('%.0f', ends))
  arm(name.main, ttl)
  -- The token may have been drawn for a shorter lease.
  if name.fenced then
    arm(name.fence, fence_memory(ttl))
  end
  held.dead, held.leases[claim], held.ends = {}, ends, math.max(held.ends, ends)
end

-- Whether `owner` holds `name` and is let in again: not if it is revoked, or has left and keeps it.
local function lets_in(name, owner)
  local held = name.held
  return held.owner == owner and held.alive > 0 and not held.revoked
end

-- Tells the client of `claim` that it holds `name` with `token`, by `request`, its last: `G <claim> <token> <request>`. '0' if
-- the server refused that message.
local function tell_granted(name, claim, token, request)
  local client = client_of(claim)
  local message = string.format('G %s %s %s', claim, token, request)
  return client and wake(string.format('%s:%s', name.channel, client), message) or '0'
end
