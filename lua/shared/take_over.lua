-- shared/take_over: the conversion of a claim that stands alone and left no acquire unanswered, in front of everything that only other
-- names need. It stands where it does for the reason that shared/take_free does.

if ARGV[11] == '0' then
  -- Read by a write, see shared/value.
  local value = redis.pcall('GETEX', KEYS[1])
  local old = table.concat({ ARGV[5], ' ', ARGV[10], ' ', ARGV[9], ' ' })
  -- Without a flag behind its token.
  local alone = type(value) == 'string' and string.find(value, old, 1, true) == 1 and string.find(value, '^%d+$', #old + 1)
  local left = alone and redis.call('EXISTS', KEYS[3]) == 0 and redis.call('PTTL', KEYS[1])
  if left and left >= 0 then
    local token = draw_again(KEYS[2], ARGV[4]) or draw_token(KEYS[2], ARGV[4], server_now())
    value = table.concat({ ARGV[5], ' ', ARGV[6], ' ', ARGV[2], ' ', token })
    -- The lease lasts as long as the old one would have.
    redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', math.max(tonumber(ARGV[3]), left)))
    return { ARGV[1], 'GRANTED', token }
  end
end
