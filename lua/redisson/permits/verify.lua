-- redisson/permits/verify: checks whether the claim holds permits of a semaphore of Redisson's. Changes nothing.
--
-- KEYS[1] main     how many permits are available, see shared/redisson_permits
-- KEYS[2] ends     ZSET: when the held permits end, server ms
-- KEYS[3] claims   HASH: the data about our claims
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] leased   1 if the permits end in Redisson too, as those of an RPermitExpirableSemaphore
-- REPLY HELD left  ms until the lease ends on the server
-- REPLY REVOKED    the claim holds but is revoked
-- REPLY GONE       expired, deleted or released, or its permits were given back by another client
-- PUBLISH nothing

local leased = ARGV[3] == '1'
local value, fault = read_permits(KEYS[1], KEYS[2], KEYS[3], leased)
if fault then
  return fault
end
local hold = value and hold_of(KEYS[2], KEYS[3], ARGV[2], leased, math.floor(server_now() / 1000))
if not hold or hold.left <= 0 or hold.flags == 'c' then
  return { ARGV[1], 'GONE' }
end
if hold.flags == 'r' then
  return { ARGV[1], 'REVOKED' }
end
return { ARGV[1], 'HELD', hold.left }
