-- redisson/permits/revoke: tells our claims that hold permits of a semaphore of Redisson's to let them go. They hold until they leave or their
-- leases end, and are renewed no more; their clients are told. Redisson has no word for it. Run again it tells them again.
--
-- KEYS[1] main     how many permits are available, see shared/redisson_permits
-- KEYS[2] ends     ZSET: when the permits that are held end
-- KEYS[3] claims   what is known of our claims
-- ARGV[1] request  echoed
-- ARGV[2] leased   1 if permits have ends in Redisson too
-- REPLY TOLD claims  so many claims were revoked
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
