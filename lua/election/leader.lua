-- election/leader: who leads a name, and what it has proclaimed, as of one moment. Changes nothing.
--
-- KEYS[1] main     the value of one claim, or a marker, see shared/value
-- KEYS[2] holders  ZSET: <flag><share>:<claim> -> server ms of the end of its lease
-- KEYS[3] state    HASH: what else is known of holders and waiters, see shared/standing and shared/leader
-- ARGV[1] request  echoed
-- ARGV[2] kind
-- REPLY LEADER term claim left number since label value  the claim leads with this token, for so many ms if it is not renewed (negative: without
--                                                        end); number, since, label and value: see shared/leader, 0 and empty until it has
--                                                        proclaimed any
-- REPLY FREE                                             nobody leads
-- REPLY WRONG_KIND                                       the name holds another kind's data, or one of its keys another type
-- PUBLISH nothing

local name = { main = KEYS[1], holders = KEYS[2], state = KEYS[3] }
local readable, fault = read_standing(name, true)
if fault then
  return fault
end
if not readable or name.found and name.found ~= ARGV[2] then
  return { ARGV[1], 'WRONG_KIND' }
end
local claim, left = leading(name)
if not claim then
  return { ARGV[1], 'FREE' }
end
local known, fault = proclaimed(name)
if fault then
  return fault
end
if not known then
  return { ARGV[1], 'WRONG_KIND' }
end
return { ARGV[1], 'LEADER', name.token, claim, left, unpack(known) }
