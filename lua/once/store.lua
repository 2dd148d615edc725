-- once/store: stores the outcome of the work of a name, which is done or has failed, if the claim holds with its token; then releases the claim
-- and tells the name's pollers. A claim that no longer holds stores nothing, because another may have done the work since; one that holds with
-- another token stores nothing and is released. A repeat gives the same answer while the record is there.
--
-- KEYS[1] main            the value of one claim, or a marker, see shared/value
-- KEYS[2] tombstone       lives for as long as a request of this claim may still arrive
-- KEYS[3] record          HASH: the outcome of the work, see shared/record
-- ARGV[1] request         echoed
-- ARGV[2] claim
-- ARGV[3] token           of the claim's grant
-- ARGV[4] channel         on which pollers of the name listen
-- ARGV[5] tombstone_ttl   ttl of the tombstone, ms; 0: no tombstone, because every acquire was answered
-- ARGV[6] keep_for        how long the record is stored, ms
-- ARGV[7] form            text or hex: the form of the value; failed: there is no value
-- ARGV[8] fingerprint     of the request; empty: none
-- ARGV[9] value
-- REPLY RELEASED told holds  the outcome is stored and the claim released; told: 0 if the server refused a wake, otherwise 1; holds: 0
-- REPLY GONE                 nothing is stored: the claim did not hold with that token; it does not hold now
-- PUBLISH channel: free, if a client polls the name

-- Begins with a write that cannot grow, so that a full server accepts the writes that follow: work whose outcome is lost is done twice.
local value, fault = read_value(KEYS[1], true)
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
