-- shared/take_free: acquires a free name, before everything that only other names need. It comes before the functions of the
-- other fragments, because defining them costs time.

-- The values of the main key and the tombstone; a key of another type counts as missing. Nil for a repeat.
local before

if ARGV[5] == '0' then
  if redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
    local token = draw_again(KEYS[2], ARGV[4]) or draw_token(KEYS[2], ARGV[4], server_now())
    local value = ARGV[6] .. ' ' .. ARGV[7] .. ' ' .. ARGV[2] .. ' ' .. token
    if ARGV[8] == '1' then
      value = value .. 'p'
    end
    redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
    return ARGV[1] .. ' GRANTED ' .. token
  end
  before = redis.call('MGET', KEYS[1], KEYS[3])
end
