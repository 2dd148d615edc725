-- redisson/permits/revoke: asks our claims that hold permits of a semaphore of Redisson's to release them. They hold until they are released or their
-- leases end, and the leases are no longer extended. The client of each claim is told; a repeat tells it again. Redisson cannot revoke.
--
-- KEYS[1] main     how many permits are available, see shared/redisson_permits
-- KEYS[2] ends     ZSET: when the held permits end, server ms
-- KEYS[3] claims   HASH: the data about our claims
-- ARGV[1] request  echoed
-- ARGV[2] leased   1 if the permits end in Redisson too, as those of an RPermitExpirableSemaphore
-- REPLY TOLD claims  `claims` claims are revoked
-- REPLY FREE         none of our claims holds
-- REPLY WRONG_KIND   the name holds something else
-- PUBLISH channel of each claim's client: revoked <claim>

local leased = ARGV[2] == '1'
local value, fault = read_permits(KEYS[1], KEYS[2], KEYS[3], leased)
if fault then
  return fault
end
if value == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
local now, told = math.floor(server_now() / 1000), 0
for _, claim in ipairs(redis.call('HKEYS', KEYS[3])) do
  local hold = hold_of(KEYS[2], KEYS[3], claim, leased, now)
  if hold and hold.left > 0 and hold.flags ~= 'c' then
    redis.call('HSET', KEYS[3], claim, table.concat({ hold.permits, ' ', hold.token, 'r' }))
    tell_client(claim, string.format('revoked %s', claim))
    told = told + 1
  end
end
if told == 0 then
  return { ARGV[1], 'FREE' }
end
return { ARGV[1], 'TOLD', told }
