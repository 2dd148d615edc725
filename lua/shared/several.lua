-- shared/several: names that are taken together, all or none.

-- What keeps `claim` from `name`, as its item is answered; nothing if it can hold it, or does. The second value is any error of the
-- server, to be returned as it is. Afterwards nothing that grants can fail.
local function refusal(name, claim, tombstone)
  local usable, fault = read_for(name, false)
  if fault then
    return nil, fault
  end
  if not usable and name.foreign and not name.reenters then
    return { 'BUSY', redis.call('PTTL', name.main), 1 }
  end
  if not usable then
    -- Of another kind, but those may all have died: to be asked again at once.
    return name.more and { 'BUSY', 1 } or 'WRONG_KIND'
  end
  local ends, flag = lease_of(name, 'x', claim)
  name.ends, name.token_of_claim = ends, ends > name.now and flag ~= 'c' and name.token
  if name.token_of_claim then
    return flag == 'r' and 'REVOKED' or nil
  end
  if is_taken(name) and not lets_in(name, owner_of(claim)) or name.waits then
    return { 'BUSY', left_of(name) }
  end
  return redis.call('EXISTS', tombstone) == 1 and 'GONE' or nil
end
