-- redisson/permits/renew: extends the leases of claims that hold permits of semaphores of Redisson's; each item is a name and a claim. Never creates:
-- a claim that is not there, or has ended, is gone. A key of another type makes only its own item GONE; any other error of the server fails the
-- whole run.
--
-- KEYS[3i-2] main   how many permits are available, see shared/redisson_permits
-- KEYS[3i-1] ends   ZSET: when the held permits end, server ms
-- KEYS[3i] claims   HASH: the data about our claims
-- ARGV[1] request   echoed
-- ARGV[3i-1] claim
-- ARGV[3i] ttl      of the lease, ms
-- ARGV[3i+1] leased  1 if the permits end in Redisson too, as those of an RPermitExpirableSemaphore
-- REPLY DONE outcome…  one for each item, in order
-- ITEM RENEWED
-- ITEM REVOKED   the claim holds but is revoked; its lease is not extended
-- ITEM GONE      expired, deleted or released, or its permits were given back by another client
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
local now = math.floor(server_now() / 1000)
for i = 1, #KEYS / 3 do
  local main, ends, claims = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local claim, ttl, leased = ARGV[3 * i - 1], tonumber(ARGV[3 * i]), ARGV[3 * i + 1] == '1'
  local value, fault = read_permits(main, ends, claims, leased)
  if fault then
    return fault
  end
  local hold = value and hold_of(ends, claims, claim, leased, now)
  if not hold or hold.left <= 0 or hold.flags == 'c' then
    if hold and hold.there == 0 then
      redis.call('HDEL', claims, claim, unpack(hold.members)) -- All that it took has been given back.
    end
    reply[i + 2] = 'GONE'
  elseif hold.flags == 'r' then
    reply[i + 2] = 'REVOKED'
  else
    arm_permits(main, ends, claims, hold, leased, ttl, now)
    reply[i + 2] = 'RENEWED'
  end
end
return reply
