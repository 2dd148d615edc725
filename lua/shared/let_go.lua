-- shared/let_go: removes a claim that is alone under its name, if nobody is to be told and no cooldown follows, before everything
-- that only other names need. It comes first for the same reason as shared/take_free.

if ARGV[4] == '0' then
  -- A read that counts as a write, see shared/value. Equal to the whole value: no flag follows the token.
  if redis.pcall('GETEX', KEYS[1]) == ARGV[5] then
    redis.call('DEL', KEYS[1])
    return ARGV[1] .. ' RELEASED 1 0'
  end
end
