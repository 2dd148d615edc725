-- redisson/permits/set: sets a semaphore of Redisson's up, unless it has been; and asks how many permits are available, which first gives back those
-- whose time is over. A repeat of what sets it up finds that it has been.
--
-- KEYS[1] main     how many permits are available, see shared/redisson_permits
-- KEYS[2] ends     ZSET: when the permits that are held end
-- KEYS[3] claims   what is known of our claims
-- ARGV[1] request  echoed
-- ARGV[2] n        so many permits; 0: it is only asked
-- ARGV[3] channel  where those who wait listen, Redisson's clients too
-- ARGV[4] leased   1 if permits have ends in Redisson too
-- REPLY COUNTS left n own  `left` permits are available; `n` permits that end are held, or if they are not leased by so many claims of ours; own: 1 if
--                          this has set it up
-- REPLY GONE               it has not been set up
-- REPLY WRONG_KIND         the name holds something else
-- PUBLISH channel: how many permits are available, if some were given back or it was set up

local n, leased = ARGV[2], ARGV[4] == '1'
local value, fault = read_permits(KEYS[1], KEYS[2], KEYS[3], leased)
if fault then
  return fault
end
if value == nil then
  return { ARGV[1], 'WRONG_KIND' }
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
