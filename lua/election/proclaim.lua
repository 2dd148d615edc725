-- election/proclaim: stores the value that the leader of a name proclaims, if the claim leads with that token, and tells the observers. Of several
-- values of one term, the one with the largest number stays, so an old value that arrives late changes nothing. A repeat gives the same answer.
-- Storing a value inflates the name, so that the value expires and is deleted with the other keys of the name.
--
-- KEYS[1] main     the value of one claim, or a marker, see shared/value
-- KEYS[2] holders  ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[3] queue    ZSET: <share>:<claim> -> its ticket
-- KEYS[4] state    HASH: further data of holders and waiters, see shared/standing and shared/leader
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] term     the token of the claim's grant
-- ARGV[4] number   of this value within the term
-- ARGV[5] label    of the leader's client; empty: none
-- ARGV[6] value
-- ARGV[7] channel  on which observers listen
-- REPLY LEADER term claim left number since label value  the claim leads; the fields are this value, or a later one, as in election/leader
-- REPLY REVOKED                                          the claim leads but is revoked; nothing is changed
-- REPLY GONE                                             the claim does not lead with that token
-- REPLY WRONG_KIND                                       the state's key has another type
-- PUBLISH channel: L <term>

local name = { main = KEYS[1], holders = KEYS[2], queue = KEYS[3], state = KEYS[4] }
local readable, fault = read_standing(name, true)
if fault then
  return fault
end
local ends, flag = 0, ''
if readable then
  ends, flag = lease_of(name, 'x', ARGV[2])
end
if ends <= name.now or flag == 'c' or name.token ~= ARGV[3] then
  return { ARGV[1], 'GONE' }
end
if flag == 'r' then
  return { ARGV[1], 'REVOKED' }
end
local known, fault = proclaimed(name)
if fault then
  return fault
end
if not known then
  return { ARGV[1], 'WRONG_KIND' }
end
if tonumber(ARGV[4]) > tonumber(known[1]) then
  if name.alone then
    inflate(name)
  end
  -- Observers want to know when nobody leads any more, as pollers do: the release that leaves nobody tells them.
  ask_for_wake(name)
  known = { ARGV[4], known[1] == '0' and text_of(name.now) or known[2], ARGV[5], ARGV[6] }
  local proclamation = table.concat({ ARGV[3], known[1], known[2] }, ' ')
  redis.call('HSET', name.state, 'proclaimed', proclamation, 'label', known[3], 'value', known[4])
  -- The key may be new, and then has no expiry yet.
  name.fresh, name.waits = true, redis.call('EXISTS', name.queue) == 1
  settle(name)
  -- A refusal is not reported: observers also read the leader from time to time.
  wake(ARGV[7], string.format('L %s', ARGV[3]))
end
return { ARGV[1], 'LEADER', ARGV[3], ARGV[2], math.max(ends - name.now, 0), unpack(known) }
