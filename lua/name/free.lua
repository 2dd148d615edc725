-- name/free: takes a name from its holder by force, whatever its kind and whether or not the holder is told. It does so only if `claim`
-- is one of the name's claims, so that the caller never takes it from a holder that it did not mean. Claims that hold together lose the
-- name together, and the client of each is told. Waiters stay in the queue; the next heartbeat grants the name to the first.
--
-- KEYS[1] main     the value of one claim, or a marker, see shared/value
-- KEYS[2] holders  ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[3] queue    ZSET: <share>:<claim> -> its ticket
-- KEYS[4] state    HASH: further data of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request  echoed
-- ARGV[2] claim    one of the claims that lose the name; another library's may be given as `hex:` and two digits for each byte
-- ARGV[3] channel  on which pollers of the name listen
-- REPLY RELEASED told holds  told: 0 if the server refused the wake, otherwise 1; holds: 0
-- REPLY NOT_HELD holds       the claim is not one of the name's claims; holds: 0
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
  for _, member in ipairs(redis.call('ZRANGE', name.holders, '0', '-1')) do
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
