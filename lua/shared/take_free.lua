-- shared/take_free: acquires a free name, before everything that only other names need. It comes before the functions of the
-- other fragments, because defining them costs time.

if ARGV[5] == '0' and redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  local token = draw_again(KEYS[2], ARGV[4]) or draw_token(KEYS[2], ARGV[4], server_now())
  local value = ARGV[6] .. ' ' .. ARGV[7] .. ' ' .. ARGV[2] .. ' ' .. token
  if ARGV[8] == '1' then
    value = value .. 'p'
  end
  redis.call('RPUSH', KEYS[1], value)
  local armed, fault = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])
  if armed == 1 then
    return ARGV[1] .. ' GRANTED ' .. token
  end
  -- The ttl is invalid, and a value without one must not stay.
  redis.call('DEL', KEYS[1])
  fault = armed
  return fault
end
