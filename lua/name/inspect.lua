-- name/inspect: what a name holds, whatever its kind. Changes nothing.
--
-- KEYS[1] main     of any kind
-- KEYS[2] fence    the last token drawn for the name
-- KEYS[3] queue    of those who wait, a ZSET
-- KEYS[4] readers  of a read-write lock, a ZSET
-- ARGV[1] request  echoed
-- ARGV[2] channel  where waiters of the name listen
-- REPLY FOUND kind token waiters claims  token: of the hold, empty if forgotten; waiters: how many wait in
--                                        the queue if the kind has one, or else how many clients listen; negative if the
--                                        server does not say; claims: {claim, left, state}…, where left is in ms, negative:
--                                        without end, and state is held, revoked or kept; of one that reads a fourth: read
-- REPLY FREE waiters                     nobody holds
-- REPLY WRONG_KIND                       the name holds no lock
-- PUBLISH nothing

local waiters = listeners(ARGV[2])
local length = redis.pcall('ZCARD', KEYS[3])
local queued = type(length) == 'number' and length or -1
local held, fault = read_any(KEYS[1], KEYS[4], math.floor(server_now() / 1000))
if fault then
  return fault
end
if not held then
  return { ARGV[1], 'WRONG_KIND' }
end
if held.kind == 'fair' or held.kind == 'rwlock' or not held.kind and queued > 0 then
  waiters = queued
end
if #held.claims == 0 then
  return { ARGV[1], 'FREE', waiters }
end
-- Another library draws no tokens: behind its holder the fence is that of a hold which is over.
local token = held.token or client_of(held.claims[1][1]) and redis.call('GET', KEYS[2])
return { ARGV[1], 'FOUND', held.kind, token or '', waiters, held.claims }
