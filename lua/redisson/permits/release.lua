-- redisson/permits/release: gives back the permits of a claim. Leased permits whose minimum hold time is not over stay taken, and end with it. While
-- an acquire of the claim is unanswered, the release leaves a tombstone, so that the acquire takes nothing if it is executed late.
--
-- KEYS[1] main            how many permits are available, see shared/redisson_permits
-- KEYS[2] ends            ZSET: when the held permits end, server ms
-- KEYS[3] claims          HASH: the data about our claims
-- KEYS[4] tombstone       lives for as long as a request of this claim may still arrive
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] channel         on which waiters listen, Redisson's clients too
-- ARGV[4] cooldown        how long the permits stay unavailable, ms; 0 unless they are leased
-- ARGV[5] tombstone_ttl   ttl of the tombstone, ms; 0: no tombstone, because every acquire was answered
-- ARGV[6] leased          1 if the permits end in Redisson too, as those of an RPermitExpirableSemaphore
-- REPLY RELEASED told holds  told: 0 if the server refused a message, otherwise 1; holds: 0
-- REPLY COOLDOWN told left   its permits stay unavailable for `left` ms more
-- REPLY NOT_HELD holds       there was nothing to release, or the lease had ended; holds: 0
-- PUBLISH channel: how many permits are available; or, with a cooldown, how many stay unavailable

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
  -- A number above 0 makes Redisson's waiters ask again, and so they learn when the permits end.
  return { ARGV[1], 'COOLDOWN', wake(channel, hold.permits), cooldown }
end
local freed = give_back(KEYS[1], KEYS[2], KEYS[3], hold.members, leased)
local told = freed and wake(channel, freed) or '1'
if hold.left <= 0 then
  return { ARGV[1], 'NOT_HELD', 0 }
end
return { ARGV[1], 'RELEASED', told, 0 }
