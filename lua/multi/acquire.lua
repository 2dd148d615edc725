-- multi/acquire: grants several free names to claims, all of them or none; no claim waits. It writes the same data as lock/acquire. A
-- repeat by the holders extends their leases and gives the same tokens.
--
-- KEYS[3i-2] main       the value of one claim, or a marker, see shared/value
-- KEYS[3i-1] counter    the last token drawn by any name of the slot
-- KEYS[3i] tombstone    left by a release that overtook this claim's acquire
-- ARGV[1] request       echoed
-- ARGV[6i-4] claim
-- ARGV[6i-3] ttl        of the lease, ms
-- ARGV[6i-2] floor      the largest token the caller has seen
-- ARGV[6i-1] kind
-- ARGV[6i] share        x: all of the name; n: n parts; n/limit: n of `limit` parts
-- ARGV[6i+1] polled     1 if other claims of the client poll the name
-- REPLY DONE outcome…   one for each item, in order; a list if it has fields. Either all outcomes are GRANTED or none
-- ITEM GRANTED token
-- ITEM FREE        the claim could have its name, but another item is refused
-- ITEM BUSY left   ms until the holder's lease ends; negative: it never ends
-- ITEM INFLATED    only lock/acquire can decide: the name is inflated, or another library's, or this claim may hold beside the holder
-- ITEM REVOKED     the claim holds but is revoked; its lease is not extended
-- ITEM GONE        this claim was released and must not hold again
-- ITEM WRONG_KIND  the name holds data of another kind, or is also the name of an earlier item
-- PUBLISH nothing

local reply, keys, counters, tokens, named, refused = { ARGV[1], 'DONE' }, {}, {}, {}, {}, false
for i = 1, #KEYS / 3 do
  keys[2 * i - 1], keys[2 * i], counters[i] = KEYS[3 * i - 2], KEYS[3 * i], KEYS[3 * i - 1]
end
-- In most runs none of the keys exists, and one EXISTS finds that out.
local free = redis.call('EXISTS', unpack(keys)) == 0
for i = 1, #KEYS / 3 do
  local outcome, token, fault
  if not free then
    outcome, token, fault = refusal(KEYS[3 * i - 2], KEYS[3 * i], ARGV[6 * i - 1], ARGV[6 * i], ARGV[6 * i - 4])
  end
  if fault then
    return fault
  end
  outcome = named[KEYS[3 * i - 2]] and 'WRONG_KIND' or outcome
  reply[i + 2], tokens[i], named[KEYS[3 * i - 2]], refused = outcome or 'FREE', token or false, true, refused or outcome
end
if not refused then
  local now = server_now()
  -- First the counters, each once: after them nothing can fail.
  local last, before = {}, redis.call('MGET', unpack(counters))
  for i, counter in ipairs(counters) do
    if not tokens[i] then
      local floor = token_number(ARGV[6 * i - 2])
      last[counter] = math.max((last[counter] or math.max(counted(before[i]), now - 1)) + 1, floor + 1)
      reply[i + 2] = { 'GRANTED', string.format('%.0f', last[counter]) }
    end
  end
  for counter, token in pairs(last) do
    keep_token(counter, string.format('%.0f', token), now)
  end
  for i = 1, #KEYS / 3 do
    local main, ttl = KEYS[3 * i - 2], ARGV[6 * i - 3]
    if tokens[i] then
      arm(main, tonumber(ttl))
      reply[i + 2] = { 'GRANTED', tokens[i] }
    else
      local flags = ARGV[6 * i + 1] == '1' and 'p' or ''
      local value = value_of(ARGV[6 * i - 1], ARGV[6 * i], ARGV[6 * i - 4], reply[i + 2][2], flags)
      write_value(main, false, value, ttl)
    end
  end
end
return reply
