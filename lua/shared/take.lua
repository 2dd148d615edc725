-- shared/take: lock/take, except where the counter is ahead of the clock, below the floor, or of another type. It comes before the functions of
-- the other fragments, because defining them costs time. The numbers are those of shared/token.

if redis.call('EXISTS', KEYS[1], KEYS[3]) ~= 0 then
  local value = ARGV[5] == '1' and redis.pcall('LINDEX', KEYS[1], '0')
  local kind, owner, flags = string.match(type(value) == 'string' and value or '', '^(%l+) x ([^/]+)/%S+ %d+(%l*)$')
  local its_kind, its_owner = string.match(ARGV[2], '^(%l+) %S+ ([^/]+)/')
  -- Whatever else stands there, lock/acquire decides.
  if kind and kind == its_kind and owner ~= its_owner and not string.find(flags, 'c', 1, true) then
    return ARGV[1] .. ' BUSY ' .. string.format('%.0f', redis.call('PTTL', KEYS[1]))
  end
  return ARGV[1] .. ' INFLATED'
end
-- As draw_again in shared/token.
local floor = tonumber(ARGV[4]) or 0
local token, before, now = redis.call('PTTL', KEYS[2]) > 86399990 and redis.pcall('INCR', KEYS[2])
if type(token) == 'number' and token > floor and token < 9007199254740991 then
  token = redis.call('GET', KEYS[2])
else
  -- As draw_token there.
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  token = string.format('%.0f', now)
  before = redis.pcall('SET', KEYS[2], token, 'PX', '86400000', 'GET')
  if type(before) == 'table' or (tonumber(before) or 0) >= now or floor >= now then
    token = nil
  end
end
if token then
  redis.call('RPUSH', KEYS[1], ARGV[2] .. token)
  local armed, fault = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])
  if armed == 1 then
    return ARGV[1] .. ' GRANTED ' .. token
  end
  -- The ttl is invalid, and a value without one must not stay.
  redis.call('DEL', KEYS[1])
  fault = armed
  return fault
end
