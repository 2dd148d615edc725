-- redisson/permits/acquire: takes permits of a semaphore of Redisson's for a claim, if as many are available. First it gives back those whose time is
-- over. Run again by a holder it arms the lease, and takes nothing a second time.
--
-- KEYS[1] main       how many permits are available, see shared/redisson_permits
-- KEYS[2] ends       ZSET: when the permits that are held end
-- KEYS[3] claims     what is known of our claims
-- KEYS[4] tombstone  of a release that overtook this claim's acquire
-- KEYS[5] counter    of tokens: the last one drawn by any name of the slot
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] ttl        of the lease, ms
-- ARGV[4] floor      the largest token the caller has seen
-- ARGV[5] token      of the grant that is repeated, which then creates nothing; 0 if none has been granted
-- ARGV[6] permits    how many
-- ARGV[7] leased     1 if permits have ends in Redisson too
-- ARGV[8] channel    where those who wait listen, Redisson's clients too
-- REPLY GRANTED token
-- REPLY BUSY left    too few are available; ms until the first permits that are held end; negative: nothing is known of that
-- REPLY REVOKED      the claim holds, is revoked, and is not armed again
-- REPLY GONE         this claim has left and must not come back, or it does not hold with that token
-- REPLY WRONG_KIND   the name holds something else
-- PUBLISH channel: how many permits are available, if some were given back

local claim, ttl, n, leased = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[6]), ARGV[7] == '1'
-- Begins with a write also if nothing is granted: without data a replica would say that there is nothing to be had.
local value, fault = read_permits(KEYS[1], KEYS[2], KEYS[3], leased)
if fault then
  return fault
end
if value == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
if redis.call('EXISTS', KEYS[4]) == 1 then
  return { ARGV[1], 'GONE' }
end
local micros = server_now()
local now = math.floor(micros / 1000)
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now), 'limit', 0, value and 128 or 0)
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
  local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
  local left = first and math.ceil(tonumber(first) - now) or -1
  return { ARGV[1], 'BUSY', left < KEPT and left or -1 }
end
local token = hold and hold.token or draw_again(KEYS[5], ARGV[4]) or draw_token(KEYS[5], ARGV[4], micros)
local taken = take_permits(KEYS[1], KEYS[3], claim, n, missing, token, leased)
arm_permits(KEYS[1], KEYS[2], KEYS[3], taken, leased, ttl, now)
return { ARGV[1], 'GRANTED', token }
