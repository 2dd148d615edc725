-- redisson/latch/count_down: counts a latch of Redisson's down by one. Redisson's counts have no ids, so a repeat counts again. The last count deletes
-- the key and tells the waiters; if the server refuses the message, they ask again after a timer.
--
-- KEYS[1] main     how many counts are missing; no key: the latch is open or was never set
-- ARGV[1] request  echoed
-- ARGV[2] channel  on which waiters listen, Redisson's clients too
-- REPLY COUNTS left n  `left` counts are missing; `n` were missing before this one
-- REPLY WRONG_KIND     the name holds something else
-- PUBLISH channel: 0, if it opens

local missing, fault = read_counts(KEYS[1])
if fault then
  return fault
end
if not missing then
  return { ARGV[1], 'WRONG_KIND' }
end
local left = math.max(missing - 1, 0)
if left > 0 then
  redis.call('INCRBY', KEYS[1], -1)
else
  redis.call('DEL', KEYS[1])
end
if missing == 1 then
  wake(ARGV[2], '0')
end
return { ARGV[1], 'COUNTS', left, math.max(missing, 0) }
