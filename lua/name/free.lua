-- name/free: takes a name from its holder by force, whatever its kind and whether or not the holder knows. Only if `claim` is
-- among those that hold or keep it: nobody takes it from another than he meant. Those who read together lose it together. Each
-- claim's client is told.
--
-- KEYS[1] main     of any kind
-- KEYS[2] readers  of a read-write lock, a ZSET
-- ARGV[1] request  echoed
-- ARGV[2] claim    one that is to lose the name
-- ARGV[3] channel  where waiters of the name listen
-- REPLY RELEASED told holds  told: 1 when the wake went out, 0 when the server refused it; holds: 0
-- REPLY NOT_HELD holds       the claim has no part in the name; holds: 0
-- REPLY WRONG_KIND           the name holds no lock
-- PUBLISH channel: free; channel of each claim's client: gone <claim>

local held, fault = read_any(KEYS[1], KEYS[2], math.floor(server_now() / 1000))
if fault then
  return fault
end
if not held then
  return { ARGV[1], 'WRONG_KIND' }
end
local found = false
for _, entry in ipairs(held.claims) do
  found = found or entry[1] == ARGV[2]
end
if not found then
  return { ARGV[1], 'NOT_HELD', 0 }
end
redis.call('DEL', KEYS[1], KEYS[2])
for _, entry in ipairs(held.claims) do
  tell_client(entry[1], string.format('gone %s', entry[1]))
end
return { ARGV[1], 'RELEASED', wake(ARGV[3], 'free'), 0 }
