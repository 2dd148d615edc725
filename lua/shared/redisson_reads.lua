-- shared/redisson_reads: which reads of a name of Redisson's RReadWriteLock have a lease, see shared/redisson_rwlock.

-- Whether one of those that read at `main` still has a lease. Redisson writes a key for each: their names follow from `timeout`, the first one of `owner`,
-- and are not in KEYS, as in Redisson's unlock. Where more than 256 would have to be looked up, one is taken to have a lease.
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
