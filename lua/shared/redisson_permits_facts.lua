-- shared/redisson_permits_facts: the data about our claims on a semaphore of Redisson's, see shared/redisson_permits.

-- How many permits a run looks at in semaphores that are gone, however many items it has, and how many with one command: a script must not block the
-- server for long.
local MOST, PORTION = 512, 128
local budget = MOST

-- The permits, token and flags in the data about a claim; nil if that is no such data. A number of permits that no claim can take is not ours: in Java
-- it is an int, and leased permits have an entry each.
local function facts_of(text, leased)
  local permits, token, flags = string.match(text or '', '^([1-9]%d*) (%d+)(%l*)$')
  if permits and tonumber(permits) <= (leased and 1000 or 2147483647) then
    return permits, token, flags
  end
end

-- Deletes the data about the claims on a semaphore that is gone. Their leased permits are in `ends` among those of Redisson's clients, which stay there
-- because they do not depend on us. Returns whether there is more to delete. If none of the permits that it looked at is ours, those that are end by
-- themselves.
local function forget_claims(ends, claims, leased)
  local first, last = 0, not leased
  while not last and budget > 0 do
    local members, ours = redis.call('ZRANGE', ends, first, first + PORTION - 1), {}
    local whose = #members > 0 and redis.call('HMGET', claims, unpack(members)) or {}
    for i, member in ipairs(members) do
      ours[#ours + 1] = whose[i] and member or nil
    end
    if #ours > 0 then
      redis.call('ZREM', ends, unpack(ours))
    end
    first, last, budget = first + #members - #ours, #members < PORTION, budget - PORTION
  end
  if not last and first < MOST then
    return true
  end
  redis.call('UNLINK', claims, leased and claims or ends)
  return false
end
