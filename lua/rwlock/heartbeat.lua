-- rwlock/heartbeat: claims say that they are alive, each item a name and a claim that waits for it. Never creates: a claim that is
-- neither a holder nor in the queue, or was silent for too long, is gone. The queue of a name is advanced once, whatever the number of its
-- items. What one item meets, another type under its keys for example, changes nothing for the others.
--
-- KEYS[5i-4] main        HASH of the writer: kind, owner, token, and <claim> -> server ms of the end of its lease
-- KEYS[5i-3] fence       the last token drawn for the name
-- KEYS[5i-2] queue       ZSET: <claim> -> its ticket
-- KEYS[5i-1] waiters     HASH: <claim> -> <server ms until which it is alive>:<its last executed request>:<mode>; seen, grace
-- KEYS[5i] readers       ZSET: <claim> -> server ms of the end of its lease; facts below zero
-- ARGV[1] request        echoed
-- ARGV[6i-4] claim
-- ARGV[6i-3] ttl         of the lease, if it is granted, ms
-- ARGV[6i-2] floor       the largest token the caller has seen
-- ARGV[6i-1] waiter_ttl  for how long a waiter is alive without a word, ms
-- ARGV[6i] channel       stem of the channels on which clients are told of grants
-- ARGV[6i+1] mode        read or write
-- REPLY DONE outcome…   one for each item, in order; one with fields is a list
-- ITEM GRANTED token  the claim holds, by its turn or because its owner does; its lease is armed
-- ITEM WAITING place  in the queue, 1 for the next
-- ITEM MORE           waiting, but the run has done as much as it may for others: to be run again at once
-- ITEM REVOKED        the claim holds, is revoked, and is not armed
-- ITEM GONE           it does not wait, and does not hold
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter whose turn it is

local reply = { ARGV[1], 'DONE' }
local now, names = server_now(), {}
for i = 1, #KEYS / 5 do
  local claim, ttl, mode = ARGV[6 * i - 4], tonumber(ARGV[6 * i - 3]), ARGV[6 * i + 1]
  local name = names[KEYS[5 * i - 4]]
  if not name then
    name = { main = KEYS[5 * i - 4], fence = KEYS[5 * i - 3], queue = KEYS[5 * i - 2] }
    name.waiters, name.readers = KEYS[5 * i - 1], KEYS[5 * i]
    name.floor, name.waiter_ttl, name.channel = ARGV[6 * i - 2], tonumber(ARGV[6 * i - 1]), ARGV[6 * i]
    local _, fault = read_phase(name, now, true)
    if fault then
      return fault
    end
    advance(name)
    names[name.main] = name
  end
  local ends, token, revoked = 0, nil, nil
  if name.ours then
    ends, token, revoked = lease_of(name, claim, mode)
  end
  local holds = ends > name.now
  local place = name.ours and not holds and place_of(name, claim)
  if holds and revoked then
    reply[i + 2] = 'REVOKED'
  elseif holds then
    go_on(name, claim, mode, ttl)
    reply[i + 2] = { 'GRANTED', token }
  elseif not place then
    reply[i + 2] = 'GONE'
  elseif lets_in(name, owner_of(claim)) then
    reply[i + 2] = { 'GRANTED', come_in(name, claim, mode, ttl) }
  else
    hear(name, claim, ARGV[1], mode)
    reply[i + 2] = name.more and 'MORE' or { 'WAITING', place }
  end
end
return reply
