-- name/revoke: asks the holders of a name to release it. Their claims hold until they are released or their leases end, and the leases
-- are no longer extended. The client of each claim is told; a repeat tells it again.
--
-- KEYS[1] main     the value of one claim, or a marker, see shared/value
-- KEYS[2] holders  ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[3] queue    ZSET: <share>:<claim> -> its ticket
-- KEYS[4] state    HASH: further data of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request  echoed
-- REPLY TOLD claims  `claims` claims are revoked
-- REPLY FREE         nobody holds
-- REPLY WRONG_KIND   the name holds no lock, or another library's lock, which cannot be revoked
-- PUBLISH channel of each claim's client: revoked <claim>

local name = { main = KEYS[1], holders = KEYS[2], queue = KEYS[3], state = KEYS[4] }
local readable, fault = read_standing(name, true)
if fault then
  return fault
end
if not readable then
  return { ARGV[1], 'WRONG_KIND' }
end
local told = 0
for _, entry in ipairs(standing(name)) do
  local claim, state, share = entry[1], entry[3], entry[4]
  if state ~= 'cooldown' then
    tell_client(claim, string.format('revoked %s', claim))
    told = told + 1
  end
  if state == 'held' and name.alone then
    local value = value_of(name.found, share, claim, name.token, name.polled and 'rp' or 'r')
    write_value(name.main, true, value)
  elseif state == 'held' then
    local member = member_of('', share, claim)
    redis.call('ZADD', name.holders, redis.call('ZMSCORE', name.holders, member)[1], member_of('r', share, claim))
    redis.call('ZREM', name.holders, member)
    -- No new claim may join the revoked ones if it would get their token; permits of a semaphore each have their own.
    name.changed, name.revoked = true, share == 'x' or name.reenters
  end
end
-- The queue is not read: if no claim is left under the name, the next acquisition deletes the keys.
name.waits = true
settle(name)
if told == 0 then
  return { ARGV[1], 'FREE' }
end
return { ARGV[1], 'TOLD', told }
