-- shared/any: reads every claim that stands under a name, whatever its kind, for people.

-- The claims that stand under `name`, which has been read: each with its id, the ms left to it (negative: without an end), what has
-- become of it: held, revoked or cooldown, and its share. Another library's value is a claim that has all of the name.
local function standing(name)
  local claims, states = {}, { [''] = 'held', r = 'revoked', c = 'cooldown' }
  local alone = name.alone
  if name.foreign then
    claims[1] = { name.foreign, redis.call('PTTL', name.main), 'held', 'x' }
  elseif alone then
    claims[1] = { alone.claim, alone.left, states[alone.flag], alone.share }
  end
  local members = name.inflated and redis.call('ZRANGE', name.holders, 0, -1, 'WITHSCORES') or {}
  for i = 1, #members, 2 do
    local flag, share, claim = parts_of(members[i])
    local left = tonumber(members[i + 1]) - name.now
    if share and left > 0 then
      claims[#claims + 1] = { claim, left, states[flag], share }
    end
  end
  return claims
end
