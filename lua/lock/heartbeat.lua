-- lock/heartbeat: keeps waiting claims alive; each item is a name and a claim that waits for it. Never creates: a claim that neither
-- holds nor waits, or that was silent for too long, is gone. An error of one item, for example a key of another type, does not affect
-- the others.
--
-- Items that follow one another may be about the same name: only the first of them brings its keys and the arguments marked with *,
-- which are empty in the others. The name is read once and its queue advanced once.
--
-- KEYS[5n-4] main        of the nth name: the value of one claim, or a marker, see shared/value
-- KEYS[5n-3] counter     the last token drawn by any name of the slot
-- KEYS[5n-2] holders     ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[5n-1] queue       ZSET: <share>:<claim> -> its ticket
-- KEYS[5n] state         HASH: further data of holders and waiters, see shared/standing and shared/queue
-- ARGV[1] request        echoed
-- ARGV[8i-6] claim
-- ARGV[8i-5] ttl         of the lease, if one is granted, ms
-- ARGV[8i-4] floor *     the largest token the caller has seen
-- ARGV[8i-3] kind *
-- ARGV[8i-2] share       x: all of the name; otherwise a number of parts
-- ARGV[8i-1] waiter_ttl  how long a waiter stays alive without a heartbeat, ms
-- ARGV[8i] channel *     the prefix of the grant channels
-- ARGV[8i+1] reenters *  1 if an owner that holds may acquire again
-- REPLY DONE outcome…   one for each item, in order; a list if it has fields
-- ITEM GRANTED token       the claim holds, because it is its turn or because its owner holds; the lease is armed
-- ITEM WAITING place left  the place in the queue, 1 for the next, which also gets: ms until the first of the holders' leases ends
-- ITEM MORE                the claim waits, and one run does not finish the work: run it again at once
-- ITEM REVOKED             the claim holds but is revoked; its lease is not extended
-- ITEM GONE                the claim neither waits nor holds
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter that is granted

local reply = { ARGV[1], 'DONE' }
local names, name = {}, nil
for i = 1, (#ARGV - 1) / 8 do
  if ARGV[8 * i - 3] ~= '' then
    local n = #names + 1
    name = { main = KEYS[5 * n - 4], counter = KEYS[5 * n - 3], holders = KEYS[5 * n - 2] }
    name.queue, name.state, name.items, name.claims = KEYS[5 * n - 1], KEYS[5 * n], {}, {}
    name.floor, name.kind = ARGV[8 * i - 4], ARGV[8 * i - 3]
    name.waiter_ttl, name.channel = tonumber(ARGV[8 * i - 1]), ARGV[8 * i]
    name.reenters = ARGV[8 * i + 1] == '1'
    names[n] = name
  end
  name.items[#name.items + 1], name.claims[#name.claims + 1] = i, ARGV[8 * i - 6]
end
for _, name in ipairs(names) do
  local readable, fault = read_name(name, true)
  if fault then
    return fault
  end
  readable = readable and name.found == name.kind
  if readable then
    advance(name)
  end
  local entries = readable and name.waits and redis.call('HMGET', name.state, unpack(name.claims)) or {}
  for n, i in ipairs(name.items) do
    local claim, share, entry = name.claims[n], ARGV[8 * i - 2], entries[n] or false
    -- Claims of one client may have different ones.
    name.waiter_ttl = tonumber(ARGV[8 * i - 1])
    reply[i + 2] = readable and beat(name, share, claim, tonumber(ARGV[8 * i - 5]), entry, ARGV[1]) or 'GONE'
  end
  if readable then
    settle(name)
  end
end
return reply
