-- election/leader: reads who leads a name, and what it has proclaimed, at one moment. Changes nothing.
--
-- KEYS[1] main     the value of one claim, or a marker, see shared/value
-- KEYS[2] holders  ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[3] state    HASH: further data of holders and waiters, see shared/standing and shared/leader
-- ARGV[1] request  echoed
-- ARGV[2] kind
-- REPLY LEADER term claim left number since label value  the claim leads with the token `term`, for `left` ms unless it is renewed (negative:
--                                                        without end); number, since, label, value: see shared/leader; 0 and empty until
--                                                        it has proclaimed a value
-- REPLY FREE                                             nobody leads
-- REPLY WRONG_KIND                                       the name holds data of another kind, or one of its keys has another type
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
