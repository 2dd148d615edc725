-- redisson/free: takes a name of Redisson's from its holder by force, whether or not the holder knows. Only if `claim` is what inspection shows, a
-- claim of the hold or its owner: nobody takes it from another than he meant. The clients of our claims are told, and whoever waits looks.
--
-- KEYS[1] main     the owner that holds, as Redisson writes it, see shared/redisson
-- KEYS[2] claims   what is known of our claims
-- KEYS[3] queue    LIST: the owners that wait for an RFairLock, as Redisson writes it
-- ARGV[1] request  echoed
-- ARGV[2] claim    one that is to lose the name, or the owner
-- ARGV[3] channel  where those who wait listen, Redisson's clients too; with the owner behind it, that of one who stands in the queue
-- REPLY RELEASED told holds  told: 1 when the wake went out, 0 when the server refused it; holds: 0
-- REPLY NOT_HELD holds       the claim has no part in the name; holds: 0
-- REPLY WRONG_KIND           the name holds something else
-- PUBLISH channel: 0; channel:<owner>: 0, to the first 256 in the queue, of whom some may be dead; channel of each claim's client: gone <claim>

local fault = select(2, read_field(KEYS[1], 'none', true))
if fault then
  return fault
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return { ARGV[1], 'NOT_HELD', 0 }
end
if kind ~= 'hash' or not is_held(KEYS[1]) then
  return { ARGV[1], 'WRONG_KIND' }
end
local owner, claims = redis.call('HKEYS', KEYS[1])[1], redis.call('HKEYS', KEYS[2])
local first = redis.call('HGET', KEYS[2], 'first') -- Inspection shows it, also when it has left and others of its owner hold.
local found = owner == ARGV[2] or first == ARGV[2] and owner_of(first) == owner
for _, claim in ipairs(claims) do
  found = found or claim == ARGV[2] and owner_of(claim) == owner
end
if not found then
  return { ARGV[1], 'NOT_HELD', 0 }
end
redis.call('DEL', KEYS[1], KEYS[2])
for _, claim in ipairs(claims) do
  tell_client(claim, string.format('gone %s', claim))
end
local told, waiting = wake(ARGV[3], '0'), redis.pcall('LRANGE', KEYS[3], 0, 255)
for _, waiter in ipairs(waiting) do
  told = wake(string.format('%s:%s', ARGV[3], waiter), '0') == '0' and '0' or told
end
return { ARGV[1], 'RELEASED', told, 0 }
