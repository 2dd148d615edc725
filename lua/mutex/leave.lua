-- mutex/leave: the claim goes, every acquire of it having been answered. Compare and delete, then wake the waiters.
--
-- KEYS[1] main     the holder's claim, a string
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] channel  where waiters of the name listen
-- REPLY LEFT told holds  told: 1 when the wake went out, 0 when the server refused it; holds: what the owner still has, 0
-- REPLY NOT_HELD holds  nothing was there to leave
-- PUBLISH channel: free

local holder, fault = read_claim(KEYS[1], AS_A_WRITE)
if fault then
  return fault
end
if holder ~= ARGV[2] then
  return { ARGV[1], 'NOT_HELD', 0 }
end
redis.call('DEL', KEYS[1])
return { ARGV[1], 'LEFT', wake(ARGV[3], 'free'), 0 }
