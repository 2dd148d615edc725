-- multi/acquire: makes claims holders of several names, each a mutex or a re-entrant lock: all of them or none. What lies under
-- a name is what its own kind writes. Run again by the holders it arms their leases again and gives the same tokens.
--
-- KEYS[3i-2] main     the holder's claim, a string; or a HASH: kind, owner, token, and <claim> -> server ms of its end
-- KEYS[3i-1] fence    the last token drawn for the name
-- KEYS[3i] tombstone  the tombstone of a release that overtook this claim's acquire
-- ARGV[1] request     echoed
-- ARGV[4i-2] claim
-- ARGV[4i-1] ttl      of the lease, ms
-- ARGV[4i] floor      the largest token the caller has seen
-- ARGV[4i+1] kind     mutex or reentrant
-- REPLY DONE outcome…   one for each item, in order; one with fields is a list. GRANTED is the outcome of all items or of none
-- ITEM GRANTED token
-- ITEM FREE        nothing keeps this claim from its name, but another item is refused
-- ITEM BUSY left   ms until the holder's lease ends; negative when it never does
-- ITEM REVOKED     the claim holds, is revoked, and is not armed again
-- ITEM GONE        this claim has left and must not come back
-- ITEM WRONG_KIND  the name holds another kind's data, or is that of an item before
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
local now_us, names, named, refused = server_now(), {}, {}, false
for i = 1, #KEYS / 3 do
  local name = { kind = ARGV[4 * i + 1], main = KEYS[3 * i - 2], fence = KEYS[3 * i - 1], floor = ARGV[4 * i] }
  name.now_us, name.now = now_us, math.floor(now_us / 1000)
  local outcome, fault = refusal(name, ARGV[4 * i - 2], KEYS[3 * i])
  if fault then
    return fault
  end
  if named[name.main] then
    outcome = 'WRONG_KIND'
  end
  reply[i + 2] = outcome or 'FREE'
  names[i], named[name.main], refused = name, true, refused or outcome
end
for i = 1, refused and 0 or #names do
  reply[i + 2] = { 'GRANTED', take(names[i], ARGV[4 * i - 2], tonumber(ARGV[4 * i - 1])) }
end
return reply
