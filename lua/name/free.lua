-- name/free: takes a name from its holder by force, whatever its kind and whether or not the holder knows. Only if `claim` is
-- among those that stand there: nobody takes it from another than he meant. All who hold together lose it together. Each
-- claim's client is told. Those who wait stay in their queue, and the next of them holds with the next heartbeat.
--
-- KEYS[1] main     the value of one claim, or a marker, see shared/value
-- KEYS[2] holders  ZSET: <flag><share>:<claim> -> server ms of the end of its lease
-- KEYS[3] queue    ZSET: <share>:<claim> -> its ticket
-- KEYS[4] state    HASH: what else is known of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request  echoed
-- ARGV[2] claim    one that is to lose the name; of another library also as hex: and two digits for each byte
-- ARGV[3] channel  where those who poll the name listen
-- REPLY RELEASED told holds  told: 1 when the wake went out, 0 when the server refused it; holds: 0
-- REPLY NOT_HELD holds       the claim has no part in the name; holds: 0
-- REPLY WRONG_KIND           the name holds no lock
-- PUBLISH channel: free; channel of each claim's client: gone <claim>

local name = { main = KEYS[1], holders = KEYS[2], queue = KEYS[3], state = KEYS[4] }
local readable, fault = read_standing(name, true)
if not readable and not fault and not name.foreign then
  readable, fault = read_redisson(name)
end
if fault then
  return fault
end
if not readable and not name.foreign then
  return { ARGV[1], 'WRONG_KIND' }
end
local claims, found = standing(name), false
for _, entry in ipairs(claims) do
  found = found or is_called(entry[1], ARGV[2])
end
if not found then
  return { ARGV[1], 'NOT_HELD', 0 }
end
if name.inflated then
  for _, member in ipairs(redis.call('ZRANGE', name.holders, 0, -1)) do
    uncount(name, parts_of(member))
  end
  redis.call('DEL', name.holders)
  name.waits, name.polled = redis.call('EXISTS', name.queue) == 1, nil
  settle(name)
else
  redis.call('DEL', name.main)
end
for _, entry in ipairs(claims) do
  tell_client(entry[1], string.format('gone %s', entry[1]))
end
return { ARGV[1], 'RELEASED', wake(ARGV[3], 'free'), 0 }
