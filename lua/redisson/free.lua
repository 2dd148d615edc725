-- redisson/free: takes a name of Redisson's from its holder by force, whether or not the holder is told. It does so only if `claim` is what
-- redisson/inspect shows, a claim of the hold, or the owner, so that the caller never takes it from a holder that it did not mean. The clients
-- of our claims are told, and waiters are woken.
--
-- KEYS[1] main     Redisson's HASH: the owner that holds, see shared/redisson
-- KEYS[2] claims   HASH: the data about our claims
-- KEYS[3] queue    LIST: the owners that wait for an RFairLock, as Redisson writes it
-- ARGV[1] request  echoed
-- ARGV[2] claim    a claim of the hold, or the owner that holds
-- ARGV[3] channel  on which waiters listen, Redisson's clients too; followed by an owner, the channel of a waiter in the queue
-- REPLY RELEASED told holds  told: 0 if the server refused the wake, otherwise 1; holds: 0
-- REPLY NOT_HELD holds       `claim` is neither a claim of the hold nor its owner; holds: 0
-- REPLY WRONG_KIND           the name holds something else
-- PUBLISH channel: 0; channel:<owner>: 0, to the first 256 in the queue, some of which may be dead; channel of each claim's client: gone <claim>

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
local ours = redis.call('TYPE', KEYS[2]).ok == 'hash' -- A key of another type counts no claim.
local owner, claims = redis.call('HKEYS', KEYS[1])[1], ours and redis.call('HKEYS', KEYS[2]) or {}
local first = ours and redis.call('HGET', KEYS[2], 'first') -- Inspection shows it, also when it has left and others of its owner hold.
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
