-- rwlock/verify_read: asks whether the claim reads. Changes nothing. One that writes is asked about by reentrant/verify.
--
-- KEYS[1] readers  ZSET: <claim> -> server ms of the end of its lease; facts below zero
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- REPLY HELD left  ms until the claim's lease ends on the server
-- REPLY REVOKED    the claim holds and is revoked
-- REPLY GONE       expired or deleted
-- PUBLISH nothing

local now = math.floor(server_now() / 1000)
local lease, revoked, fault = read_reader(KEYS[1], ARGV[2])
if fault then
  return fault
end
if lease <= now then
  return { ARGV[1], 'GONE' }
end
if revoked then
  return { ARGV[1], 'REVOKED' }
end
return { ARGV[1], 'HELD', lease - now }
