-- shared/redisson_hold: counts our claims in a name of Redisson's, see shared/redisson.

-- Draws a token from `counter`, that of an RFencedLock; nil if the key holds something else. The second value is any other error of the server, to be
-- returned as it is.
local function draw_fenced(counter)
  local token = redis.pcall('INCR', counter)
  if type(token) == 'number' then
    return string.format('%.0f', token)
  end
  local value = redis.pcall('GET', counter)
  local foreign = type(value) == 'table' and string.find(value.err, 'WRONGTYPE', 1, true)
  foreign = foreign or type(value) == 'string' and not string.find(value, '^-?%d+$')
  return nil, not foreign and token or nil
end

-- Counts `claim` for its owner, unless it is counted already, and makes the lease last for at least `ttl` ms. `known` is what read_claim returns.
-- The first claim of a hold draws a token from `counter`. `source` is the field that stores it: `token`, or `fenced` if the counter is that of
-- an RFencedLock. Returns the token of the claim; nil if the counter holds something else, or with an error of the server as the second value.
local function hold(main, claims, counter, claim, known, source, floor, ttl)
  local token, fault = known[source], nil
  if not known.own then
    if not token and source == 'fenced' then
      token, fault = draw_fenced(counter)
    elseif not token then
      token = draw_again(counter, floor) or draw_token(counter, floor, server_now())
    end
    if not token then
      return nil, fault
    end
    if not known.stands then
      redis.call('DEL', claims)
      redis.call('HSET', claims, 'owner', owner_of(claim))
    end
    if not known.count then
      redis.call('HSET', claims, 'first', claim)
    end
    redis.call('HSET', claims, claim, token, source, token)
    redis.call('HINCRBY', main, owner_of(claim), 1)
  end
  arm(main, ttl)
  arm(claims, ttl)
  return known.own or token
end
