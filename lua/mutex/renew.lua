-- mutex/renew: arms the lease of a claim that holds. Never creates: a claim that is not there is gone.
--
-- KEYS[1] main     the holder's claim, a string
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] ttl      of the lease, ms
-- REPLY RENEWED
-- REPLY GONE       expired, deleted, or somebody else's
-- PUBLISH nothing

if redis.pcall('GET', KEYS[1]) ~= ARGV[2] then
  return { ARGV[1], 'GONE' }
end
arm(KEYS[1], tonumber(ARGV[3]))
return { ARGV[1], 'RENEWED' }
