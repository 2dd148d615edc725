-- shared/take_free: acquires a free name, before everything that only other names need. It comes before the functions of the
-- other fragments, because defining them costs time.

-- The values of the main key and the tombstone; a key of another type counts as missing. Nil for a repeat.
local before

if ARGV[5] == '0' then
  before = redis.call('MGET', KEYS[1], KEYS[3])
  if not before[1] and not before[2] then
    local token = draw_again(KEYS[2], ARGV[4]) or draw_token(KEYS[2], ARGV[4], server_now())
    local value = ARGV[6] .. ' ' .. ARGV[7] .. ' ' .. ARGV[2] .. ' ' .. token
    if ARGV[8] == '1' then
      value = value .. 'p'
    end
    -- A key of another type looks missing here, and is not overwritten.
    if redis.call('SET', KEYS[1], value, 'PX', ARGV[3], 'NX') then
      return ARGV[1] .. ' GRANTED ' .. token
    end
    return { ARGV[1], 'WRONG_KIND' }
  end
end
