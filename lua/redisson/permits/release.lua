-- redisson/permits/release: gives the permits of a claim back, or, where Redisson knows of their end, lets them end with the shortest time to hold.
-- While an acquire of the claim is unanswered the release makes a tombstone, so that it, executed late, takes nothing.
--
-- KEYS[1] main            how many permits are available, see shared/redisson_permits
-- KEYS[2] ends            ZSET: when the permits that are held end
-- KEYS[3] claims          what is known of our claims
-- KEYS[4] tombstone       its life is the last time a request of this claim may arrive
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] channel         where those who wait listen, Redisson's clients too
-- ARGV[4] cooldown        for how long the permits are kept from others, ms; 0 unless they are leased
-- ARGV[5] tombstone_ttl   of the tombstone, ms; 0: every acquire was answered, no tombstone
-- ARGV[6] leased          1 if permits have ends in Redisson too
-- REPLY RELEASED told holds  told: 1 unless the server refused a message; holds: 0
-- REPLY COOLDOWN told left   its permits are kept for `left` ms more
-- REPLY NOT_HELD holds       nothing was there to release, or its lease had ended; holds: 0
-- PUBLISH channel: how many permits are available, or how many are kept from others

local claim, channel, leased = ARGV[2], ARGV[3], ARGV[6] == '1'
local value, fault = read_permits(KEYS[1], KEYS[2], KEYS[3], leased)
if fault then
  return fault
end
if ARGV[5] ~= '0' then
  redis.call('SET', KEYS[4], '1', 'PX', ARGV[5])
end
local now = math.floor(server_now() / 1000)
local hold = value and hold_of(KEYS[2], KEYS[3], claim, leased, now)
if not hold then
  return { ARGV[1], 'NOT_HELD', 0 }
end
if hold.flags == 'c' and hold.left > 0 then
  return { ARGV[1], 'COOLDOWN', '1', hold.left }
end
if leased and ARGV[4] ~= '0' and hold.left > 0 then
  local cooldown = tonumber(ARGV[4])
  for _, member in ipairs(hold.members) do
    redis.call('ZADD', KEYS[2], string.format('%.0f', now + cooldown), member)
  end
  redis.call('HSET', KEYS[3], claim, table.concat({ hold.permits, ' ', hold.token, 'c' }))
  arm(KEYS[3], cooldown)
  -- A number above 0 makes Redisson's waiters look, and so learn of the end.
  return { ARGV[1], 'COOLDOWN', wake(channel, hold.permits), cooldown }
end
local freed = give_back(KEYS[1], KEYS[2], KEYS[3], hold.members, leased)
local told = freed and wake(channel, freed) or '1'
if hold.left <= 0 then
  return { ARGV[1], 'NOT_HELD', 0 }
end
return { ARGV[1], 'RELEASED', told, 0 }
