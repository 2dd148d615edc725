-- shared/redisson_permits: the permits of Redisson's RSemaphore and RPermitExpirableSemaphore. `main` is Redisson's key for both, a string: the number
-- of available permits. The ends of our claims' permits, server ms, are in the ZSET `ends`. In Redisson the permits of an RSemaphore do not end, so
-- `ends` is a key of ours: claim -> end. Otherwise (`leased`) it is Redisson's own: a permit, 16 raw bytes -> end.
--
-- `claims` is a HASH of ours beside it: each claim that holds -> `<permits> <token><flags>`, with the flags `r`, revoked, and `c`, in cooldown;
-- and each leased permit of ours -> its claim. Without `main` there is no semaphore, and the data about its claims is deleted.

-- How long the data about our claims is stored, ms: a year. A later request finds the claims that have ended there, and gives their permits back.
local KEPT = 31536000000

-- The bytes that these hex digits stand for. Java shows a permit by such digits.
local function bytes_of(hex)
  return (string.gsub(hex, '%x%x', function(byte)
    return string.char(tonumber(byte, 16))
  end))
end

-- The members of `ends` for a claim that takes this number of permits.
local function members_of(claim, permits, leased)
  if not leased then
    return { claim }
  end
  -- Each member has the digits that differ from claim to claim, the first digits of the client, and the number of the permit.
  local client, digits = string.match(claim, '^(%x%x%x%x%x%x%x%x).*/(%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x)$')
  local members = {}
  for i = 1, permits do
    members[i] = bytes_of(string.format('%s%s%08x', digits or '0000000000000000', client or '00000000', i))
  end
  return members
end

-- How many permits are available; false if there is no semaphore, and then deletes the data about its claims; nil if a key holds something else. The
-- second value is any other error of the server, to be returned as it is; the third, whether more of that data has to be deleted. `command` reads
-- the number; without one, the read counts as a write.
local function read_permits(main, ends, claims, leased, command)
  local value, fault = read_text(main, command or AS_A_WRITE)
  local kinds = { redis.call('TYPE', ends).ok, redis.call('TYPE', claims).ok }
  local fits = (kinds[1] == 'zset' or kinds[1] == 'none') and (kinds[2] == 'hash' or kinds[2] == 'none')
  if value == nil or not fits or value and not (#value < 16 and (value == '0' or string.find(value, '^-?[1-9]%d*$'))) then
    return nil, fault
  end
  if not value then
    return false, nil, kinds[2] == 'hash' and forget_claims(ends, claims, leased)
  end
  return tonumber(value)
end

-- The hold of `claim` at `now`, server ms, or false: its `members`, `permits`, `token` and `flags`; `left`, ms until it ends, 0 if it has ended or if
-- one of its leased permits is no longer in `ends`; and `there`, how many of its members are in `ends`. If an RSemaphore's claim is not in `ends`,
-- that key was lost: the claim still holds, and a renewal gives it an end.
local function hold_of(ends, claims, claim, leased, now)
  local permits, token, flags = facts_of(redis.call('HGET', claims, claim), leased)
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

-- Gives back the permits of these members that are still taken: leased permits are taken while they are in `ends`, others while their claim is in
-- `claims`. Returns how many are then available, as text; nil if none was given back.
local function give_back(main, ends, claims, members, leased)
  local permits = 0
  for _, member in ipairs(members) do
    local claim = leased and redis.call('HGET', claims, member) or member
    local weight = leased and 1 or tonumber((facts_of(redis.call('HGET', claims, claim))) or 0)
    local ended, forgotten = redis.call('ZREM', ends, member), redis.call('HDEL', claims, claim)
    permits = permits + (leased and ended or forgotten) * weight
    redis.call('HDEL', claims, member)
  end
  return permits > 0 and string.format('%.0f', redis.call('INCRBY', main, string.format('%.0f', permits))) or nil
end
