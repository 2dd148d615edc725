-- mutex/leave: the claim goes, every acquire of it having been answered. Compare and delete, then wake the waiters.
--
-- KEYS[1] main     the holder's claim, a string
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] channel  where waiters of the name listen
-- REPLY LEFT told       told: 1 when the wake went out, 0 when the server refused it
-- REPLY NOT_HELD        nothing was there to leave
-- PUBLISH channel: free

if redis.pcall('GET', KEYS[1]) ~= ARGV[2] then
  return { ARGV[1], 'NOT_HELD' }
end
redis.call('DEL', KEYS[1])
return { ARGV[1], 'LEFT', wake(ARGV[3], 'free') }
