-- redisson/permits/acquire: takes permits of a semaphore of Redisson's for the claim, if enough are available. First it gives back permits that have
-- ended. A repeat by a holder extends the lease and takes nothing a second time.
--
-- KEYS[1] main       how many permits are available, see shared/redisson_permits
-- KEYS[2] ends       ZSET: when the held permits end, server ms
-- KEYS[3] claims     HASH: the data about our claims
-- KEYS[4] tombstone  left by a release that overtook this claim's acquire
-- KEYS[5] counter    the last token drawn by any name of the slot
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] ttl        of the lease, ms
-- ARGV[4] floor      the largest token the caller has seen
-- ARGV[5] token      of the grant that this request repeats; such a repeat creates nothing; 0: no grant yet
-- ARGV[6] permits    how many permits to take
-- ARGV[7] leased     1 if the permits end in Redisson too, as those of an RPermitExpirableSemaphore
-- ARGV[8] channel    on which waiters listen, Redisson's clients too
-- REPLY GRANTED token
-- REPLY BUSY left foreign known  too few are available; ms until the first of the held permits end, negative: unknown; known, if the claim asks for
--                    more than that: how many are available, or known to be held; otherwise missing, like foreign, which is 0
-- REPLY MORE         the semaphore is gone, and one run does not delete all that is known of its claims: run it again at once
-- REPLY REVOKED      the claim holds but is revoked; its lease is not extended
-- REPLY GONE         this claim was released or has ended and must not hold again, or does not hold with that token
-- REPLY WRONG_KIND   the name holds something else
-- PUBLISH channel: how many permits are available, if some were given back

local claim, ttl, n, leased = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[6]), ARGV[7] == '1'
-- A repeat is a renewal, and is read like one.
local value, fault, more = read_permits(KEYS[1], KEYS[2], KEYS[3], leased, ARGV[5] == '0' and 'GET' or nil)
if fault then
  return fault
end
if value == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
if more then
  return { ARGV[1], 'MORE' }
end
if redis.call('EXISTS', KEYS[4]) == 1 then
  return { ARGV[1], 'GONE' }
end
local micros = server_now()
local now = math.floor(micros / 1000)
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now), 'limit', 0, value and 128 or 0)
if #over > 0 then
  redis.call('ZADD', KEYS[2], 'XX', '0', 'none') -- Changes nothing, but needs memory, see shared/enter.
end
local freed = give_back(KEYS[1], KEYS[2], KEYS[3], over, leased)
if freed then
  value = tonumber(freed)
  wake(ARGV[8], freed)
end
local hold = hold_of(KEYS[2], KEYS[3], claim, leased, now)
if hold and (hold.left <= 0 or hold.flags == 'c') or ARGV[5] ~= '0' and not (hold and hold.token == ARGV[5]) then
  return { ARGV[1], 'GONE' }
end
if hold and hold.flags == 'r' then
  return { ARGV[1], 'REVOKED' }
end
local missing = hold and 0 or untaken(KEYS[2], members_of(claim, n, leased), n, leased)
if missing > (value or 0) then
  redis.call(AS_A_WRITE, KEYS[1]) -- A replica without data would answer the same.
  local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
  local left = first and math.ceil(tonumber(first) - now) or -1
  local known = n > 1 and (value or 0) + known_to_be_held(KEYS[2], KEYS[3], leased) or n
  return { ARGV[1], 'BUSY', left < KEPT and left or -1, known < n and 0 or nil, known < n and known or nil }
end
local token = hold and hold.token or draw_again(KEYS[5], ARGV[4]) or draw_token(KEYS[5], ARGV[4], micros)
local taken = take_permits(KEYS[1], KEYS[3], claim, n, missing, token, leased)
arm_permits(KEYS[1], KEYS[2], KEYS[3], taken, leased, ttl, now)
return { ARGV[1], 'GRANTED', token }
