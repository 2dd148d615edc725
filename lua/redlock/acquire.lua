-- redlock/acquire: grants a free name to the claim on this server, which is one of several whose majority decides. A server
-- that has been up for less than the longest ttl may have lost claims that are still valid, so it grants nothing. A repeat
-- by the holder extends the lease.
--
-- The client proposes the same token to all servers. A server grants with that token if its own next token is not larger and the proposal
-- is at most a second, or half the longest ttl if that is less, ahead of its clock; otherwise it takes its own next token. So servers with
-- similar clocks and counters grant with the same token. When a server that restarted without its data takes part again, its clock is past
-- every proposal that it accepted before.
--
-- KEYS[1] main       the value of one claim, see shared/value
-- KEYS[2] counter    the last token drawn by any name of the slot on this server, or written back to it
-- KEYS[3] tombstone  left by a release that overtook this claim's acquire
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] ttl        of the lease, ms
-- ARGV[4] proposal   the token that the caller proposes to all servers
-- ARGV[5] longest    the longest ttl that any client uses, ms
-- ARGV[6] polled     1 if other claims of the client poll the name
-- REPLY GRANTED token      this server's token: the grant has the token of a majority, or the client writes the largest one back
-- REPLY BUSY left foreign  ms until the holder's lease ends; negative: it never ends; foreign: 1 if another library holds
-- REPLY QUARANTINED left   ms until this server takes part again
-- REPLY REVOKED            the claim holds but is revoked; its lease is not extended
-- REPLY GONE               this claim was released and must not hold again
-- REPLY WRONG_KIND         the name holds data of another kind
-- PUBLISH nothing

-- The most by which a proposal may be ahead of the clock, µs.
local FOLLOWED = 1000000

local value, fault = read_value(KEYS[1])
if fault then
  return fault
end
local kind, _, claim, token, flags = claim_of(value)
if value == nil or kind and kind ~= 'redlock' or value and not kind and string.sub(value, 1, 1) ~= ' ' then
  return { ARGV[1], 'WRONG_KIND' }
end
if claim == ARGV[2] and string.find(flags, 'r', 1, true) then
  return { ARGV[1], 'REVOKED' }
end
if claim == ARGV[2] and not string.find(flags, 'c', 1, true) then
  arm(KEYS[1], tonumber(ARGV[3]))
  return { ARGV[1], 'GRANTED', token }
end
if value then
  if kind and not string.find(flags, 'p', 1, true) then
    write_value(KEYS[1], true, polled(value))
  end
  return { ARGV[1], 'BUSY', redis.call('PTTL', KEYS[1]), not kind and 1 or nil }
end
local out = tonumber(ARGV[5]) - uptime()
if out > 0 then
  return { ARGV[1], 'QUARANTINED', string.format('%.0f', out) }
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  return { ARGV[1], 'GONE' }
end
local now, proposal = server_now(), token_number(ARGV[4])
local next_own = math.max(last_token(KEYS[2]) + 1, now)
local follows = proposal > next_own and proposal <= now + math.min(tonumber(ARGV[5]) * 500, FOLLOWED)
local drawn = string.format('%.0f', follows and proposal or next_own)
keep_token(KEYS[2], drawn, now)
local granted = value_of('redlock', 'x', ARGV[2], drawn, ARGV[6] == '1' and 'p' or '')
write_value(KEYS[1], false, granted, ARGV[3])
return { ARGV[1], 'GRANTED', drawn }
