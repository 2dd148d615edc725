-- fair/heartbeat: claims say that they are alive, each item a name and a claim that waits for it. Never creates: a claim that is
-- neither a holder nor in the queue, or was silent for too long, is gone. The queue of a name is advanced once, whatever the number of its
-- items. What one item meets, another type under its keys for example, changes nothing for the others.
--
-- KEYS[4i-3] main      HASH: kind, owner, token, and <claim> -> server ms of the end of its lease
-- KEYS[4i-2] fence     the last token drawn for the name
-- KEYS[4i-1] queue     ZSET: <claim> -> its ticket
-- KEYS[4i] waiters     HASH: <claim> -> <server ms until which it is alive>:<its last executed request>; seen, grace
-- ARGV[1] request      echoed
-- ARGV[5i-3] claim
-- ARGV[5i-2] ttl       of the lease, if it is granted, ms
-- ARGV[5i-1] floor     the largest token the caller has seen
-- ARGV[5i] waiter_ttl  for how long a waiter is alive without a word, ms
-- ARGV[5i+1] channel   stem of the channels on which clients are told of grants
-- REPLY DONE outcome…   one for each item, in order; one with fields is a list
-- ITEM GRANTED token  the claim holds, by its turn or because its owner does; its lease is armed
-- ITEM WAITING place  in the queue, 1 for the next
-- ITEM MORE           waiting, but dead waiters remain: to be run again at once
-- ITEM REVOKED        the claim holds, is revoked, and is not armed
-- ITEM GONE           it does not wait, and does not hold
-- PUBLISH channel:<client>: G <claim> <token> <request>, to a waiter whose turn it is

local reply = { ARGV[1], 'DONE' }
local request, now, names, by_main = ARGV[1], server_now(), {}, {}
for i = 1, #KEYS / 4 do
  local name = by_main[KEYS[4 * i - 3]]
  if not name then
    name = { kind = 'fair', main = KEYS[4 * i - 3], fence = KEYS[4 * i - 2], queue = KEYS[4 * i - 1], waiters = KEYS[4 * i] }
    name.floor, name.waiter_ttl, name.channel = ARGV[5 * i - 1], tonumber(ARGV[5 * i]), ARGV[5 * i + 1]
    name.items, name.claims = {}, {}
    by_main[name.main], names[#names + 1] = name, name
  end
  name.items[#name.items + 1], name.claims[#name.claims + 1] = i, ARGV[5 * i - 3]
end
for _, name in ipairs(names) do
  local fault = read_name(name, now, true)
  if fault then
    return fault
  end
  advance(name)
  local entries = name.waits and redis.call('HMGET', name.waiters, unpack(name.claims)) or {}
  local ends, heard = name.now + name.waiter_ttl, {}
  local sign = string.format('%.0f:%s', ends, request)
  for n, i in ipairs(name.items) do
    local claim, entry, held = name.claims[n], entries[n] or false, name.held
    local holds = held and (held.leases[claim] or 0) > name.now
    local place = held and not holds and place_of(name, claim, entry)
    if holds and held.revoked then
      reply[i + 2] = 'REVOKED'
    elseif holds or place and lets_in(name, owner_of(claim)) then
      hold(name, claim, tonumber(ARGV[5 * i - 2]))
      reply[i + 2] = { 'GRANTED', held.token }
    elseif not place then
      reply[i + 2] = 'GONE'
    elseif read_waiter(entry) > ends then
      -- Of a longer waiter ttl: nobody shortens.
      hear(name, claim, request)
      reply[i + 2] = name.more and 'MORE' or { 'WAITING', place }
    else
      heard[#heard + 1] = claim
      heard[#heard + 1] = sign
      reply[i + 2] = name.more and 'MORE' or { 'WAITING', place }
    end
  end
  if #heard > 0 then
    redis.call('HSET', name.waiters, unpack(heard))
  end
end
return reply
