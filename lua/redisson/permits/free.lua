-- redisson/permits/free: gives the permits of a claim of ours back by force, or a permit that is known to Java by this id, whether or not its holder
-- knows. The client of a claim of ours is told, and whoever waits looks.
--
-- KEYS[1] main     how many permits are available, see shared/redisson_permits
-- KEYS[2] ends     ZSET: when the permits that are held end
-- KEYS[3] claims   what is known of our claims
-- ARGV[1] request  echoed
-- ARGV[2] claim    as inspection shows it
-- ARGV[3] channel  where those who wait listen, Redisson's clients too
-- ARGV[4] leased   1 if permits have ends in Redisson too
-- REPLY RELEASED told holds  told: 1 when the wake went out, 0 when the server refused it; holds: 0
-- REPLY NOT_HELD holds       nobody holds by it; holds: 0
-- REPLY WRONG_KIND           the name holds something else
-- PUBLISH channel: how many permits are available; channel of the claim's client: gone <claim>

local claim, leased = ARGV[2], ARGV[4] == '1'
local value, fault = read_permits(KEYS[1], KEYS[2], KEYS[3], leased)
if fault then
  return fault
end
if value == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
-- A permit as Java shows it, which may be one of a claim of ours.
local id = leased and #claim == 32 and string.find(claim, '^%x+$') and bytes_of(claim)
local known = id and redis.call('HGET', KEYS[3], id) or claim
local hold = value and hold_of(KEYS[2], KEYS[3], known, leased, 0)
local members = hold and hold.members or value and id and { id } or {}
local freed = give_back(KEYS[1], KEYS[2], KEYS[3], members, leased)
if not freed then
  return { ARGV[1], 'NOT_HELD', 0 }
end
if hold then
  claim = known
  tell_client(claim, string.format('gone %s', claim))
end
return { ARGV[1], 'RELEASED', wake(ARGV[3], freed), 0 }
