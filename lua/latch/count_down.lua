-- latch/count_down: counts a latch down for an id, at most once per id, so a repeat changes nothing. Each count extends the life of the latch to
-- its whole ttl. The last count opens the latch and tells the waiters; if the server refuses the message, they ask again after a timer.
--
-- KEYS[1] main     the latch, see shared/latch
-- KEYS[2] counted  ZSET: the ids that have counted, and an empty id, whose score is the ttl
-- ARGV[1] request  echoed
-- ARGV[2] id       counts at most once; not empty
-- ARGV[3] channel  on which waiters listen
-- REPLY COUNTS left n  `left` of `n` counts are missing; 0: it is open
-- REPLY GONE state     there is no such latch: it has ended, or is absent
-- REPLY WRONG_KIND     the name holds something else
-- PUBLISH channel: free, if it opens

-- Begins with a write that cannot grow, so that a full server accepts the writes that follow: finished work must be counted.
local latch, fault = read_latch(KEYS[1], KEYS[2], true)
if fault then
  return fault
end
if not latch then
  return { ARGV[1], 'WRONG_KIND' }
end
if latch.state ~= 'armed' and latch.state ~= 'open' then
  return { ARGV[1], 'GONE', latch.state }
end
if latch.state == 'armed' and redis.call('ZADD', KEYS[2], '0', ARGV[2]) == 1 then
  -- The ids are counted anew each time, so ids that the server has lost are missing again. The empty id is one of the members.
  latch.left = math.max(latch.n - redis.call('ZCARD', KEYS[2]) + 1, 0)
  write_latch(KEYS[1], true, latch.left, latch.n, latch.claim, tonumber(latch.ttl))
  if latch.left > 0 then
    keep_counted(KEYS[2], tonumber(latch.ttl))
  else
    redis.call('DEL', KEYS[2])
    wake(ARGV[3], 'free')
  end
end
return { ARGV[1], 'COUNTS', latch.left, latch.n }
