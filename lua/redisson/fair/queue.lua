-- redisson/fair/queue: reads how many owners wait for a name of Redisson's RFairLock, and the place of one of our claims. Changes nothing.
--
-- KEYS[1] queue    LIST: the owners that wait, in order, as Redisson writes it, see shared/redisson_queue
-- KEYS[2] places   HASH: owner -> its claim that waits
-- ARGV[1] request  echoed
-- ARGV[2] claim    empty: no claim
-- REPLY QUEUED length place  place: of the claim, 1 for the next, 0 if it does not wait
-- REPLY WRONG_KIND           one of the keys has another type
-- PUBLISH nothing

local owner = owner_of(ARGV[2])
local claim, fault = read_field(KEYS[2], owner, true)
local length = redis.pcall('LLEN', KEYS[1])
if type(length) == 'table' and not string.find(length.err, 'WRONGTYPE', 1, true) then
  fault = fault or length
end
if fault then
  return fault
end
if claim == nil or type(length) == 'table' then
  return { ARGV[1], 'WRONG_KIND' }
end
local place = claim == ARGV[2] and redis.call('LPOS', KEYS[1], owner)
return { ARGV[1], 'QUEUED', length, place and place + 1 or 0 }
