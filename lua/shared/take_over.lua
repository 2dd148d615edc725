-- shared/take_over: converts a claim that is alone under its name and has no unanswered acquire, before everything that only other
-- names need. It comes first for the same reason as shared/take_free.

if ARGV[11] == '0' then
  local value = redis.pcall('LINDEX', KEYS[1], '0')
  local old = ARGV[5] .. ' ' .. ARGV[10] .. ' ' .. ARGV[9] .. ' '
  -- The token must be the end of the value: no flag follows it.
  local alone = type(value) == 'string' and string.find(value, old, 1, true) == 1 and string.find(value, '^%d+$', #old + 1)
  local left = alone and redis.call('EXISTS', KEYS[3]) == 0 and redis.call('PTTL', KEYS[1])
  if left and left >= 0 then
    local token = draw_again(KEYS[2], ARGV[4]) or draw_token(KEYS[2], ARGV[4], server_now())
    value = ARGV[5] .. ' ' .. ARGV[6] .. ' ' .. ARGV[2] .. ' ' .. token
    -- The new lease lasts at least as long as the old one would have.
    redis.call('LSET', KEYS[1], '0', value)
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(tonumber(ARGV[3]), left)))
    return ARGV[1] .. ' GRANTED ' .. token
  end
end
