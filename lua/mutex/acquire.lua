-- mutex/acquire: makes the claim the holder of a free name. Run again by the holder it arms the ttl again and gives the
-- same token: nobody else can have drawn one since.
--
-- KEYS[1] main       the holder's claim, a string
-- KEYS[2] fence      the last token drawn for the name
-- KEYS[3] tombstone  the tombstone of a release that overtook this claim's acquire
-- ARGV[1] request    echoed
-- ARGV[2] claim
-- ARGV[3] ttl        of the lease, ms
-- ARGV[4] floor      the largest token the caller has seen
-- ARGV[5] token      of the grant that is repeated, which then creates nothing; 0 if none has been granted
-- REPLY GRANTED token
-- REPLY BUSY left   ms until the holder's lease ends; negative when it never does
-- REPLY REVOKED     the claim holds, is revoked, and is not armed again
-- REPLY GONE        this claim has left and must not come back, or it is not there with that token
-- REPLY WRONG_KIND  the name holds another kind's data
-- PUBLISH nothing

local ttl = tonumber(ARGV[3])
-- A repeat is a renewal, and is read like one.
local holder, fault = read_claim(KEYS[1], ARGV[5] == '0' and 'GET' or AS_A_WRITE)
if fault then
  return fault
end

if holder == ARGV[2] then
  local token = redis.call('GET', KEYS[2]) or ARGV[5] ~= '0' and ARGV[5]
  if ARGV[5] ~= '0' and token ~= ARGV[5] then
    return { ARGV[1], 'GONE' }
  end
  arm(KEYS[1], ttl)
  -- The holder's token is known by its fence alone, which must not end before the lease.
  arm(KEYS[2], fence_memory(ttl))
  return { ARGV[1], 'GRANTED', token or draw_token(KEYS[2], ARGV[4], ttl, server_now()) }
end
if holder == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
if holder then
  local claim, state = claim_in(holder)
  if claim == ARGV[2] and state == 'revoked' then
    return { ARGV[1], 'REVOKED' }
  end
  return { ARGV[1], 'BUSY', redis.call('PTTL', KEYS[1]) }
end
if ARGV[5] ~= '0' or redis.call('EXISTS', KEYS[3]) == 1 then
  return { ARGV[1], 'GONE' }
end
local token = draw_token(KEYS[2], ARGV[4], ttl, server_now())
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return { ARGV[1], 'GRANTED', token }
