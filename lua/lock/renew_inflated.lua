-- lock/renew_inflated: extends the leases of claims whose names may be inflated; each item is a name and a claim. Never creates: a
-- claim that is not there is gone. A key of another type makes only its own item GONE; any other error of the server fails the whole
-- run. For an inflated name, KEYS contains only keys that exist: while a cluster moves the slot to another node, it refuses a script
-- that names a missing key.
--
-- KEYS[3i-2] main     the value of one claim, or a marker, see shared/value
-- KEYS[3i-1] holders  ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[3i] owners     for a claim that takes parts: the state, which counts the claims of each owner, see shared/standing; otherwise the holders
-- ARGV[1] request     echoed
-- ARGV[3i-1] claim
-- ARGV[3i] ttl        of the lease, ms
-- ARGV[3i+1] share    x: all of the name; otherwise a number of parts
-- REPLY DONE outcome…  one for each item, in order
-- ITEM RENEWED
-- ITEM REVOKED   the claim holds but is revoked; its lease is not extended
-- ITEM GONE      expired, deleted, or released
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
local now = math.floor(server_now() / 1000)
for i = 1, #KEYS / 3 do
  local main, holders, owners = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  local value, fault = read_value(main, true)
  if fault then
    return fault
  end
  local claim, ttl, share = ARGV[3 * i - 1], tonumber(ARGV[3 * i]), ARGV[3 * i + 1]
  local member, revoked = member_of('', share, claim), member_of('r', share, claim)
  local found = is_marker(value) and redis.pcall('ZMSCORE', holders, member, revoked) or {}
  fault = found.err and not string.find(found.err, 'WRONGTYPE', 1, true) and found
  if fault then
    return fault
  end
  local _, _, alone, _, flags = claim_of(value)
  if alone == claim and not string.find(flags, '[rc]') then
    arm(main, ttl)
    reply[i + 2] = 'RENEWED'
  elseif alone == claim and string.find(flags, 'r', 1, true) then
    reply[i + 2] = 'REVOKED'
  elseif tonumber(found[1] or 0) > now then
    redis.call('ZADD', holders, text_of(math.max(tonumber(found[1]), now + ttl)), member)
    -- The keys must outlive the lease even if no other script runs on this name. Waiters keep their queue by heartbeats.
    local left = math.min(redis.call('PTTL', main), redis.call('PTTL', owners))
    keep({ main = main, holders = holders, state = owners, left = left, longest = ttl })
    reply[i + 2] = 'RENEWED'
  elseif tonumber(found[2] or 0) > now then
    reply[i + 2] = 'REVOKED'
  else
    reply[i + 2] = 'GONE'
  end
end
return reply
