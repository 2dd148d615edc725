-- fair/beat: claims say that they are alive, each item a name and a claim that waits for it. Never creates: a claim that is
-- neither a holder nor in the queue, or was silent for too long, is gone. A name is settled once, whatever the number of its
-- items. What one item meets, another type under its keys for example, changes nothing for the others.
--
-- KEYS[4i-3] main       HASH: kind, owner, token, and <claim> -> server ms of the end of its lease
-- KEYS[4i-2] fence      the last token drawn for the name
-- KEYS[4i-1] queue      ZSET: <claim> -> its ticket
-- KEYS[4i] waiters      HASH: <claim> -> <server ms until which it is alive>:<its last executed request>; seen, pardon
-- ARGV[1] request       echoed
-- ARGV[5i-3] claim
-- ARGV[5i-2] ttl        of the lease, if it is granted, ms
-- ARGV[5i-1] floor      the largest token the caller has seen
-- ARGV[5i] waiter_ttl   for how long a waiter is alive without a word, ms
-- ARGV[5i+1] channel    stem of the channels on which clients are told of grants
-- REPLY DONE outcome…   one for each item, in order; one with fields is a list
-- ITEM GRANTED token    the claim holds, by its turn or because its owner does; its lease is armed
-- ITEM WAITING place    in the queue, 1 for the next
-- ITEM MORE             waiting, but dead waiters remain: to be run again at once
-- ITEM REVOKED          the claim holds, is to leave, and is not armed
-- ITEM GONE             it does not wait, and does not hold
-- PUBLISH channel:<client>: G <claim> <token> <request>, to a waiter whose turn it is

local reply = { ARGV[1], 'DONE' }
local now, names = server_now(), {}
for i = 1, #KEYS / 4 do
  local claim, ttl = ARGV[5 * i - 3], tonumber(ARGV[5 * i - 2])
  local name = names[KEYS[4 * i - 3]]
  if not name then
    name = { kind = 'fair', main = KEYS[4 * i - 3], fence = KEYS[4 * i - 2], queue = KEYS[4 * i - 1], waiters = KEYS[4 * i] }
    name.floor, name.waiter_ttl, name.channel = ARGV[5 * i - 1], tonumber(ARGV[5 * i]), ARGV[5 * i + 1]
    local fault = read_name(name, now, true)
    if fault then
      return fault
    end
    settle(name)
    names[name.main] = name
  end
  local held = name.held
  local holds = held and (held.leases[claim] or 0) > name.now
  local place = held and not holds and place_of(name, claim)
  if holds and held.revoked then
    reply[i + 2] = 'REVOKED'
  elseif holds or place and lets_in(name, owner_of(claim)) then
    hold(name, claim, ttl)
    reply[i + 2] = { 'GRANTED', held.token }
  elseif not place then
    reply[i + 2] = 'GONE'
  else
    hear(name, claim, ARGV[1])
    reply[i + 2] = name.more and 'MORE' or { 'WAITING', place }
  end
end
return reply
