-- shared/redisson_hold: counts our claims in a name of Redisson's, see shared/redisson.

-- Counts `claim` for its owner, unless it is counted already, and makes the lease last for at least `ttl` ms. `known` is what read_claim returns.
-- The first claim of a hold draws a token from `counter`. `source` is the field that stores it: `token`, or `fenced` if the counter is that of
-- an RFencedLock. Returns the token of the claim.
local function hold(main, claims, counter, claim, known, source, floor, ttl)
  local token = known[source]
  if not known.own then
    if not token and source == 'fenced' then
      token = string.format('%.0f', redis.call('INCR', counter))
    elseif not token then
      token = draw_again(counter, floor) or draw_token(counter, floor, server_now())
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
