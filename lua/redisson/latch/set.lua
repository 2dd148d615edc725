-- redisson/latch/set: sets how many counts open a latch of Redisson's, unless its count is set and it has not opened since. A repeat finds the count
-- set and changes nothing.
--
-- KEYS[1] main     how many counts are missing; no key: the latch is open or was never set
-- ARGV[1] request  echoed
-- ARGV[2] n        how many counts open it; not 0
-- ARGV[3] channel  on which waiters listen, Redisson's clients too
-- REPLY COUNTS left n own  `left` counts are missing; n: the same number; own: 1 if this request has set it
-- REPLY WRONG_KIND         the name holds something else
-- PUBLISH channel: 1, if this request has set the count

local missing, fault = read_counts(KEYS[1])
if fault then
  return fault
end
if not missing then
  return { ARGV[1], 'WRONG_KIND' }
end
if not redis.call('SET', KEYS[1], ARGV[2], 'NX') then
  return { ARGV[1], 'COUNTS', missing, missing, 0 }
end
wake(ARGV[3], '1')
return { ARGV[1], 'COUNTS', tonumber(ARGV[2]), tonumber(ARGV[2]), 1 }
