-- mutex/verify: asks whether the claim holds. Changes nothing.
--
-- KEYS[1] main     the holder's claim, a string
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- REPLY HELD left       ms until the lease ends on the server
-- REPLY GONE            expired, deleted, or somebody else's
-- PUBLISH nothing

local holder, fault = read_claim(KEYS[1], AS_A_WRITE)
if fault then
  return fault
end
if holder ~= ARGV[2] then
  return { ARGV[1], 'GONE' }
end
return { ARGV[1], 'HELD', redis.call('PTTL', KEYS[1]) }
