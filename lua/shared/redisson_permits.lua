-- shared/redisson_permits: the permits of Redisson's RSemaphore and RPermitExpirableSemaphore. `main` is a string, how many are available, which Redisson
-- alone writes too. The permits of our claims have ends, server's ms, in the ZSET `ends`: of an RSemaphore, which has no ends, a key of ours with one member
-- for each claim, the claim; otherwise (`leased`) Redisson's own with one member for each permit, 16 raw bytes.
--
-- `claims`, a HASH of ours beside it: each claim that holds -> `<permits> <token><flags>`, flags: `r` revoked, `c` in cooldown; and each raw
-- member that is ours -> its claim. Without `main` there is no semaphore, and what is known of its claims is forgotten.

-- How long what is known of our claims is stored, ms: until somebody asks for permits of claims that have ended. A year.
local KEPT = 31536000000

-- The bytes that these hex digits stand for: Java shows its permits by them.
local function bytes_of(hex)
  return (string.gsub(hex, '%x%x', function(byte)
    return string.char(tonumber(byte, 16))
  end))
end

-- The members of `ends` for a claim that takes so many permits.
local function members_of(claim, permits, leased)
  if not leased then
    return { claim }
  end
  -- The digits that differ from claim to claim, and the number of the permit.
  local client, digits = string.match(claim, '^(%x%x%x%x%x%x%x%x).*/(%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x)$')
  local members = {}
  for i = 1, permits do
    members[i] = bytes_of(string.format('%s%s%08x', digits or '0000000000000000', client or '00000000', i))
  end
  return members
end

-- How many permits are available, false if there is no semaphore; nil if a key holds something else. The second value is any other error of
-- the server, to be returned as it is.
local function read_permits(main, ends, claims, leased)
  local value, fault = read_value(main, AS_A_WRITE)
  local kinds = { redis.call('TYPE', ends).ok, redis.call('TYPE', claims).ok }
  local fits = (kinds[1] == 'zset' or kinds[1] == 'none') and (kinds[2] == 'hash' or kinds[2] == 'none')
  if value == nil or not fits or value and not (#value < 16 and (value == '0' or string.find(value, '^-?[1-9]%d*$'))) then
    return nil, fault
  end
  if not value and kinds[2] == 'hash' then
    for _, member in ipairs(redis.call('HKEYS', claims)) do
      redis.call('ZREM', ends, member)
    end
    redis.call('DEL', claims)
  end
  return value and tonumber(value)
end

-- What is known of `claim` at `now`, server's ms, false if nothing is: its `members`, `permits`, `token`, `flags`, and how much time is `left`: none
-- if it has ended, or if leased permits lack a member; `there`: how many of its members have an end. Permits without leases whose end is lost are still
-- taken: their claim holds, and a renewal gives it an end.
local function hold_of(ends, claims, claim, leased, now)
  local permits, token, flags = string.match(redis.call('HGET', claims, claim) or '', '^([1-9]%d*) (%d+)(%l*)$')
  if not permits then
    return false
  end
  local hold = { members = members_of(claim, tonumber(permits), leased), permits = permits, token = token, flags = flags, there = 0 }
  for i, score in ipairs(redis.call('ZMSCORE', ends, unpack(hold.members))) do
    local left = score and math.max(tonumber(score) - now, 0) or leased and 0 or 1
    hold.left = math.min(hold.left or math.huge, left)
    hold.there = hold.there + (score and 1 or 0)
  end
  return hold
end

-- Gives back the permits of these members that are still taken. Returns how many are available then, in text, or nil if that is as before. The permits
-- that are taken are in Redisson's `ends` if they are leased, otherwise in `claims`.
local function give_back(main, ends, claims, members, leased)
  local permits = 0
  for _, member in ipairs(members) do
    local claim = leased and redis.call('HGET', claims, member) or member
    local facts = redis.call('HGET', claims, claim)
    local weight = leased and 1 or tonumber(string.match(facts or '', '^(%d+) ') or '') or 0
    local ended, forgotten = redis.call('ZREM', ends, member), redis.call('HDEL', claims, claim)
    permits = permits + (leased and ended or forgotten) * weight
    redis.call('HDEL', claims, member)
  end
  return permits > 0 and string.format('%.0f', redis.call('INCRBY', main, string.format('%.0f', permits))) or nil
end
