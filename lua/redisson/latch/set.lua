-- redisson/latch/set: sets how many counts open a latch of Redisson's, unless it has been set and has not opened since. A repeat finds that it has been.
--
-- KEYS[1] main     how many counts are missing; there is no key if it is open, or was never set
-- ARGV[1] request  echoed
-- ARGV[2] n        how many counts open it; not 0
-- ARGV[3] channel  where those who wait listen, Redisson's clients too
-- REPLY COUNTS left n own  `left` counts are missing; `n`: the same; own: 1 if this has set them
-- REPLY WRONG_KIND         the name holds something else
-- PUBLISH channel: 1, if this has set them

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
