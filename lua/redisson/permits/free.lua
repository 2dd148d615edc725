-- redisson/permits/free: gives back by force the permits of a claim of ours, or a permit that Java shows by this id, whether or not the holder is
-- told. The client of a claim of ours is told, and waiters are woken.
--
-- KEYS[1] main     how many permits are available, see shared/redisson_permits
-- KEYS[2] ends     ZSET: when the held permits end, server ms
-- KEYS[3] claims   HASH: the data about our claims
-- ARGV[1] request  echoed
-- ARGV[2] claim    as redisson/permits/inspect shows it: a claim, or the id of a permit
-- ARGV[3] channel  on which waiters listen, Redisson's clients too
-- ARGV[4] leased   1 if the permits end in Redisson too, as those of an RPermitExpirableSemaphore
-- REPLY RELEASED told holds  told: 0 if the server refused the wake, otherwise 1; holds: 0
-- REPLY NOT_HELD holds       no permit is held by that claim or id; holds: 0
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
-- The id of a permit, as Java shows it. The permit may belong to a claim of ours.
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
