-- shared/let_go: removes a claim that is alone under its name, if nobody is to be told and no cooldown follows, before everything
-- that only other names need. It comes first for the same reason as shared/take_free.

if ARGV[4] == '0' then
  -- A read that counts as a write, see shared/value.
  local value = redis.pcall('GETEX', KEYS[1])
  -- The token must be the end of the value: no flag follows it. What has this claim is ours, whatever stands as its share.
  if type(value) == 'string' and string.match(value, '^%l+ [x%d/]+ (%S+) %d+$') == ARGV[2] then
    redis.call('DEL', KEYS[1])
    return ARGV[1] .. ' RELEASED 1 0'
  end
end
