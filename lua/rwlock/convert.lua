-- rwlock/convert: a claim that holds goes, and another of its owner holds in the other mode, with nobody in between. From writing
-- to reading always; the readers in front of the queue follow it in. From reading to writing only if nobody else reads or
-- keeps writers out: else it changes nothing. Run again it answers the same; a copy that is late finds neither claim.
--
-- KEYS[1] main           HASH of the writer: kind, owner, token, and <claim> -> server ms of the end of its lease
-- KEYS[2] fence          the last token drawn for the name
-- KEYS[3] tombstone      the tombstone of a release of the new claim that overtook this conversion
-- KEYS[4] queue          ZSET: <claim> -> its ticket
-- KEYS[5] waiters        HASH: <claim> -> <server ms until which it is alive>:<its last executed request>:<mode>; seen, grace
-- KEYS[6] readers        ZSET: <claim> -> server ms of the end of its lease; facts below zero
-- KEYS[7] old_gone       the tombstone of the old claim
-- ARGV[1] request        echoed
-- ARGV[2] claim          the new one
-- ARGV[3] ttl            of its lease, ms
-- ARGV[4] floor          the largest token the caller has seen
-- ARGV[5] waiter_ttl     for how long a waiter is alive without a word, ms
-- ARGV[6] channel        stem of the channels on which clients are told of grants
-- ARGV[7] mode           of the new claim, read or write
-- ARGV[8] old            the old claim
-- ARGV[9] tombstone_ttl  of the old claim's tombstone, ms; 0: every acquire of it was answered, no tombstone
-- REPLY GRANTED token the new claim holds, the old one does not
-- REPLY BUSY left   the old claim holds on, as others read; the last of their leases ends in so many ms
-- REPLY MORE        converted, but others are not yet served: to be run again at once
-- REPLY REVOKED     the claim that holds is revoked; nothing is converted
-- REPLY GONE        neither holds
-- REPLY WRONG_KIND  the name holds another kind's data, or one of its keys another type
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter whose turn it is

local claim, ttl, mode, old = ARGV[2], tonumber(ARGV[3]), ARGV[7], ARGV[8]
local name = { main = KEYS[1], fence = KEYS[2], queue = KEYS[4], waiters = KEYS[5], readers = KEYS[6] }
name.floor, name.waiter_ttl, name.channel = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local ours, fault = read_phase(name, server_now(), true)
if fault then
  return fault
end
if not ours or not name.fenced or not name.queued then
  return { ARGV[1], 'WRONG_KIND' }
end
local ends, token, revoked = lease_of(name, claim, mode)
local old_ends, _, old_revoked = lease_of(name, old, mode == 'read' and 'write' or 'read')
local converted, beside = ends > name.now, lets_in(name, owner_of(claim))
if not converted and (old_ends <= name.now or redis.call('EXISTS', KEYS[3]) == 1) then
  return { ARGV[1], 'GONE' }
end
if converted and revoked or not converted and old_revoked then
  return { ARGV[1], 'REVOKED' }
end
if not converted and mode == 'write' and not beside and (name.held.taken or #all_readers(name) > 1) then
  return { ARGV[1], 'BUSY', left_of(name) }
end
if ARGV[9] ~= '0' then
  redis.call('SET', KEYS[7], '1', 'PX', ARGV[9])
end
-- The lease lasts as long as the old one would have.
local lasts = math.max(ttl, old_ends - name.now)
if converted then
  go_on(name, claim, mode, ttl)
elseif mode == 'write' then
  stop_reading(name, old, 0)
  if beside then
    hold(name, claim, lasts)
  else
    grant(name, claim, owner_of(claim), lasts)
  end
  token = name.held.token
else
  local _, rest = take_from(name.held, name.main, old, name.now, 0)
  if rest > 0 then
    nest(name, claim, lasts, name.held.token)
    token = name.held.token
  else
    share(name, { claim }, { lasts })
    token = name.read_token
  end
end
advance(name)
if name.more then
  return { ARGV[1], 'MORE' }
end
return { ARGV[1], 'GRANTED', token }
