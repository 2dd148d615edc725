-- lock/verify_inflated: checks whether the claim holds, for a name that may be inflated. Changes nothing.
--
-- KEYS[1] main      the value of one claim, or a marker, see shared/value
-- KEYS[2] holders   ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- ARGV[1] request   echoed
-- ARGV[2] claim
-- ARGV[3] share     x: all of the name; otherwise a number of parts
-- REPLY HELD left   ms until the lease ends on the server
-- REPLY REVOKED     the claim holds but is revoked
-- REPLY GONE        expired, deleted, released, or replaced by another claim
-- PUBLISH nothing

local name = { main = KEYS[1], holders = KEYS[2] }
local readable, fault = read_standing(name, true)
if fault then
  return fault
end
local ends, flag = 0, ''
if readable then
  ends, flag = lease_of(name, ARGV[3], ARGV[2])
end
if ends <= name.now or flag == 'c' then
  return { ARGV[1], 'GONE' }
end
if flag == 'r' then
  return { ARGV[1], 'REVOKED' }
end
return { ARGV[1], 'HELD', ends - name.now }
