-- shared/several: names that are acquired together, all or none.

-- Why `claim` cannot have the name of this main key, as the outcome of its item; nil if it can. The second value is its token, if it
-- holds already. The third is any other error of the server, to be returned as it is.
local function refusal(main, tombstone, kind, share, claim)
  local value, fault = read_value(main)
  local found, taken, whose, token, flags = claim_of(value)
  if fault or value == nil then
    return 'WRONG_KIND', nil, fault
  elseif not value then
    return redis.call('EXISTS', tombstone) == 1 and 'GONE' or nil
  elseif not found then
    return 'INFLATED'
  elseif found ~= kind then
    return 'WRONG_KIND'
  end
  local leaving = string.find(flags, 'c', 1, true)
  if whose == claim and not leaving then
    return string.find(flags, 'r', 1, true) and 'REVOKED' or nil, token
  elseif owner_of(whose) == owner_of(claim) or taken ~= 'x' and share ~= 'x' then
    return 'INFLATED'
  end
  return { 'BUSY', redis.call('PTTL', main) }
end
