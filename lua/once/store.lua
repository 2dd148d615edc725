-- once/store: the work of a name is done, or has failed, and its claim leaves: if it holds with its token, what has come of the work is kept, and
-- those who poll the name are told. A claim that holds no more stores nothing: another may have done the work since. Run again it
-- answers the same, as long as the record is there.
--
-- KEYS[1] main            the value of one claim, or a marker, see shared/value
-- KEYS[2] tombstone       its life is the last time a request of this claim may arrive
-- KEYS[3] record          HASH: what has come of the work, see shared/record
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] token           of its grant
-- ARGV[4] channel         where those who poll the name listen
-- ARGV[5] tombstone_ttl   of the tombstone, ms; 0: every acquire was answered, no tombstone
-- ARGV[6] keep_for        for how long the record is kept, ms
-- ARGV[7] form            text or hex, of the value; failed: there is none
-- ARGV[8] fingerprint     of the request; empty: none
-- ARGV[9] value
-- REPLY RELEASED told holds  it is kept, and the claim is gone; told: 1 unless the server refused a wake; holds: how many claims the owner still has: none
-- REPLY GONE                 nothing is kept: the claim did not hold with that token
-- PUBLISH channel: free, if somebody polls

-- Begins with a write that cannot grow, so that a full server lets the others pass: work that is done and forgotten is done twice.
local value, fault = read_value(KEYS[1], AS_A_WRITE)
if fault then
  return fault
end
local record, fault = read_record(KEYS[3])
if fault then
  return fault
end
if ARGV[5] ~= '0' then
  redis.call('SET', KEYS[2], '1', 'PX', ARGV[5])
end
local _, _, claim, token, flags = claim_of(value)
local holds = claim == ARGV[2] and not string.find(flags, 'c', 1, true)
if holds and token ~= ARGV[3] then
  leave_alone(KEYS[1], value, claim, '0', ARGV[4])
  return { ARGV[1], 'GONE' }
end
if holds then
  local at = string.format('%.0f', math.floor(server_now() / 1000))
  redis.call('DEL', KEYS[3])
  redis.call('HSET', KEYS[3], 'form', ARGV[7], 'value', ARGV[9], 'claim', claim, 'token', token, 'at', at, 'fingerprint', ARGV[8])
  redis.call('PEXPIRE', KEYS[3], ARGV[6])
  local _, _, told = leave_alone(KEYS[1], value, claim, '0', ARGV[4])
  return { ARGV[1], 'RELEASED', told, 0 }
end
if record and record[3] == ARGV[2] then
  return { ARGV[1], 'RELEASED', '1', 0 }
end
return { ARGV[1], 'GONE' }
