-- redisson/permits/set: sets the number of permits of a semaphore of Redisson's, if it is not set yet; then gives back permits that have ended, and
-- reads how many are available. A repeat finds the number set and does not change it.
--
-- KEYS[1] main     how many permits are available, see shared/redisson_permits
-- KEYS[2] ends     ZSET: when the held permits end, server ms
-- KEYS[3] claims   HASH: the data about our claims
-- ARGV[1] request  echoed
-- ARGV[2] n        the number of permits; 0: only reads
-- ARGV[3] channel  on which waiters listen, Redisson's clients too
-- ARGV[4] leased   1 if the permits end in Redisson too, as those of an RPermitExpirableSemaphore
-- REPLY COUNTS left n own  `left` permits are available; n: how many held permits have an end or, unless leased, how many of our claims; own: 1 if
--                          this request has set the number
-- REPLY GONE               the number is not set
-- REPLY MORE               the same, and one run does not delete all that is known of the claims: run it again at once
-- REPLY WRONG_KIND         the name holds something else
-- PUBLISH channel: how many permits are available, if some were given back or the number was set

local n, leased = ARGV[2], ARGV[4] == '1'
local value, fault, more = read_permits(KEYS[1], KEYS[2], KEYS[3], leased)
if fault then
  return fault
end
if value == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
if more then
  return { ARGV[1], 'MORE' }
end
if not value and n == '0' then
  return { ARGV[1], 'GONE' }
end
local set = not value
if set then
  redis.call('SET', KEYS[1], n)
end
local now = string.format('%.0f', math.floor(server_now() / 1000))
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'limit', 0, set and 0 or 128)
local freed = give_back(KEYS[1], KEYS[2], KEYS[3], over, leased)
if freed or set then
  wake(ARGV[3], freed or n)
end
local left = tonumber(freed or value or n)
return { ARGV[1], 'COUNTS', left, redis.call('ZCARD', KEYS[2]), set and 1 or 0 }
