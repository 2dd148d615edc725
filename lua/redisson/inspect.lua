-- redisson/inspect: reads the holder of a name of Redisson's, for people. Changes nothing.
--
-- KEYS[1] main     Redisson's HASH: the owner that holds, see shared/redisson
-- KEYS[2] claims   HASH: the data about our claims
-- KEYS[3] queue    LIST: the owners that wait for an RFairLock, as Redisson writes it
-- ARGV[1] request  echoed
-- ARGV[2] channel  on which waiters listen, Redisson's clients too
-- ARGV[3] kind
-- REPLY FOUND kind token waiters claims limit  one claim: the one of ours that began the hold, or else the owner; then token is empty. Its fifth field is
--                                              how often the owner holds
-- REPLY FREE waiters  nobody holds; waiters: owners in the queue plus clients that listen for a wake; negative: the server does not say
-- REPLY WRONG_KIND    the name holds something else
-- PUBLISH nothing

local fault = select(2, read_field(KEYS[1], 'none', true))
if fault then
  return fault
end
local waiters, length = listeners(ARGV[2]), redis.pcall('LLEN', KEYS[3])
if type(length) == 'number' and length > 0 then
  waiters = length + math.max(waiters, 0)
end
if redis.call('TYPE', KEYS[1]).ok == 'none' then
  return { ARGV[1], 'FREE', waiters }
end
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' or not is_held(KEYS[1]) then
  return { ARGV[1], 'WRONG_KIND' }
end
local owner, left, holds = redis.call('HKEYS', KEYS[1])[1], redis.call('PTTL', KEYS[1]), tonumber(redis.call('HVALS', KEYS[1])[1])
local ours = redis.call('TYPE', KEYS[2]).ok == 'hash' -- A key of another type counts no claim.
local facts = ours and redis.call('HMGET', KEYS[2], 'first', 'token', 'revoked', 'fenced') or {}
local state = client_of(owner) and 'cooldown' or 'held'
if not facts[1] or owner_of(facts[1]) ~= owner then
  facts = { owner, '', false }
elseif facts[3] then
  state = 'revoked'
end
return { ARGV[1], 'FOUND', ARGV[3], facts[2] or facts[4] or '', waiters, { { facts[1], left, state, 'x', state ~= 'cooldown' and holds or nil } }, 0 }
