-- shared/redisson_reads: finds out whether any reader of Redisson's RReadWriteLock still has a lease, see shared/redisson_rwlock.

-- Whether any read that is counted at `main` still has a lease. Redisson writes one key for each read. Their names are derived from `timeout`, the
-- first such key of `owner`, and are not in KEYS, as in Redisson's own unlock script. If more than 256 keys had to be checked, the answer is yes.
local function is_read(main, timeout, owner)
  local prefix = string.sub(timeout, 1, -#string.format('%s:rwlock_timeout:1', owner) - 1)
  local counts = redis.call('HLEN', main) <= 256 and redis.call('HGETALL', main) or {}
  local looked = 0
  for i = 1, #counts, 2 do
    for number = 1, counts[i] ~= 'mode' and tonumber(counts[i + 1]) or 0 do
      looked = looked + 1
      if looked > 256 or redis.call('EXISTS', string.format('%s%s:rwlock_timeout:%.0f', prefix, counts[i], number)) == 1 then
        return true
      end
    end
  end
  return #counts == 0
end
