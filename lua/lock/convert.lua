-- lock/convert: replaces a claim that holds by a new one, without a gap: one of the same owner with another share, or one of the same client with the
-- same share. To parts of the name it always succeeds, and the first waiters that fit are granted too. To all of the name it succeeds only if no
-- other claim is there, or if the owner holds all of it already; otherwise nothing is converted. A repeat gives the same answer; a late copy finds
-- neither claim.
--
-- KEYS[1] main            the value of one claim, or a marker, see shared/value
-- KEYS[2] counter         the last token drawn by any name of the slot
-- KEYS[3] tombstone       left by a release of the new claim that overtook this conversion
-- KEYS[4] holders         ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[5] queue           ZSET: <share>:<claim> -> its ticket
-- KEYS[6] state           HASH: further data of holders and waiters, see shared/standing and shared/queue
-- KEYS[7] old_tombstone   of the old claim
-- ARGV[1] request         echoed
-- ARGV[2] claim           the new one
-- ARGV[3] ttl             of its lease, ms
-- ARGV[4] floor           the largest token the caller has seen
-- ARGV[5] kind
-- ARGV[6] share           of the new claim; x: all of the name; otherwise a number of parts
-- ARGV[7] waiter_ttl      how long a waiter stays alive without a heartbeat, ms
-- ARGV[8] channel         the prefix of the grant channels
-- ARGV[9] old             the old claim
-- ARGV[10] old_share
-- ARGV[11] tombstone_ttl  of the old claim's tombstone, ms; 0: no tombstone, because every acquire of it was answered
-- REPLY GRANTED token  the new claim holds, and the old one no longer does
-- REPLY BUSY left   the old claim still holds, because others are there; ms until the last lease of the name ends, the old claim's included
-- REPLY MORE        one run does not finish the work: run it again at once
-- REPLY REVOKED     the claim that holds is revoked; nothing is converted
-- REPLY GONE        neither claim holds, or the new one was released and must not hold again
-- REPLY WRONG_KIND  the name holds data of another kind, or one of its keys has another type
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter that is granted

local claim, share, ttl, old, old_share = ARGV[2], ARGV[6], tonumber(ARGV[3]), ARGV[9], ARGV[10]
local name = { main = KEYS[1], counter = KEYS[2], holders = KEYS[4], queue = KEYS[5], state = KEYS[6], reenters = true }
name.floor, name.kind, name.waiter_ttl, name.channel = ARGV[4], ARGV[5], tonumber(ARGV[7]), ARGV[8]
local readable, fault = read_name(name, true)
if fault then
  return fault
end
if not readable or name.found and name.found ~= name.kind then
  return { ARGV[1], 'WRONG_KIND' }
end
local token, ends, flag = nil, lease_of(name, share, claim)
local old_ends, old_flag = lease_of(name, old_share, old)
local converted, holds = ends > name.now and flag ~= 'c', old_ends > name.now and old_flag ~= 'c'
if not converted and (not holds or redis.call('EXISTS', KEYS[3]) == 1) then
  return { ARGV[1], 'GONE' }
end
if converted and flag == 'r' or not converted and old_flag == 'r' then
  return { ARGV[1], 'REVOKED' }
end
local exclusive, parts = old_share == 'x' and 1 or 0, weight_of(old_share) or 0
local is_alone = name.exclusive == exclusive and name.parts == parts
if not converted and share == 'x' and not is_alone and not lets_in(name, claim) then
  settle(name)
  if name.more then
    return { ARGV[1], 'MORE' }
  end
  return { ARGV[1], 'BUSY', left_of(name) }
end
if ARGV[11] ~= '0' then
  redis.call('SET', KEYS[7], '1', 'PX', ARGV[11])
end
-- The new lease lasts at least as long as the old one would have.
local lasts = math.max(ttl, old_ends - name.now)
if converted then
  token = token_of(name, share, claim)
  go_on(name, share, claim, ends, ttl)
elseif name.alone then
  name.alone, name.stands = nil, true
  token = admit(name, share, claim, lasts)
else
  dismiss(name, old_share, old, 0)
  token = admit(name, share, claim, lasts)
end
advance(name)
settle(name)
if name.more and share ~= 'x' then
  return { ARGV[1], 'MORE' }
end
return { ARGV[1], 'GRANTED', token }
