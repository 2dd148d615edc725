-- election/prefer: moves the waiter that the leader of a name has chosen to the front of the queue. The leader goes on leading. When it releases,
-- that waiter leads if it is still alive. A repeat or a late run does no more than this, and only while the claim leads.
--
-- KEYS[1] main        the value of one claim, or a marker, see shared/value
-- KEYS[2] holders     ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[3] queue       ZSET: <share>:<claim> -> its ticket
-- KEYS[4] state       HASH: further data of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request     echoed
-- ARGV[2] claim       the leader's
-- ARGV[3] waiter_ttl  how long a waiter stays alive without a heartbeat, ms
-- ARGV[4] next        the claim of the waiter
-- REPLY QUEUED length place  `length` claims wait; place: 1 if `next` is now first, 0 if it does not wait or has died
-- REPLY GONE                 the claim does not lead, or is revoked
-- PUBLISH nothing

local name = { main = KEYS[1], holders = KEYS[2], queue = KEYS[3], state = KEYS[4], waiter_ttl = tonumber(ARGV[3]) }
local readable, fault = read_name(name, true)
if fault then
  return fault
end
local ends, flag = 0, ''
if readable then
  ends, flag = lease_of(name, 'x', ARGV[2])
end
if ends <= name.now or flag ~= '' then
  return { ARGV[1], 'GONE' }
end
local member = member_of('', 'x', ARGV[4])
local place = place_of(name, member)
if place and place > 1 then
  local first = redis.call('ZRANGE', name.queue, '0', '0', 'WITHSCORES')
  redis.call('ZADD', name.queue, text_of(tonumber(first[2]) - 1), member)
end
return { ARGV[1], 'QUEUED', name.waits and redis.call('ZCARD', name.queue) or 0, place and 1 or 0 }
