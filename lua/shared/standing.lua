-- shared/standing: the claims that stand under a name, those that have left and cool down among them. A `name` here is a table:
-- its keys `main`, `counter`, `holders`, `queue` and `state`, its `kind` and whether that `reenters`, the caller's `floor`, and the `value` if
-- that has been read.
--
-- While one claim holds, its value says everything, see shared/value. A name that several hold, or for which others wait, is
-- *inflated*: the value is `<kind> * <exclusive> <live> <parts> <token> <flags> <owner>`, and the other keys, which mean nothing
-- without it, have the rest.
--
-- `exclusive` claims take all of the name, and `live` of them have not left; the others take so many `parts`, or `<parts>/<limit>` where
-- there is an end of them: that limit stands as long as anybody stands or waits there, whatever a newcomer's share says. `token` is the one that
-- they share, or 0, and `owner` that of the live exclusive claims, or `-`. The flags are `-`, then `e` if the kind lets owners in again,
-- `r` if a newcomer must not join because those who stand there are revoked, and `p`.
--
-- `holders` is a ZSET: `<flag><share>:<claim>` -> server ms at which its lease ends, where a flag is nothing, `r` or `c`. `state` is
-- a HASH; of it belong here `o:<owner>` -> `<claims> <token>` of an owner whose claims take parts, or, in a kind that does not let
-- owners in again, `o:<claim>`.

-- Lets the claim of a member of `holders` stand under the inflated `name` until `ends`.
local function put(name, ends, member)
  redis.call('ZADD', name.holders, text_of(ends), member)
  name.first_end = nil
end

-- Reads what the marker `value` says, `left` ms before its end. As read_standing.
local function read_inflated(name, value, left)
  local kind, exclusive, live, parts, limit, token, flags, owner =
    string.match(value, '^(%l+) %* (%d+) (%d+) (%d+)/?(%d*) (%d+) %-(%l*) (%S+)$')
  local first = kind and redis.pcall('ZRANGE', name.holders, 0, 0, 'WITHSCORES')
  if not kind or first.err then
    return false, kind and not string.find(first.err, 'WRONGTYPE', 1, true) and first or nil
  end
  name.found, name.inflated, name.left, name.limit = kind, true, left, tonumber(limit)
  name.polled, name.reenters = string.find(flags, 'p', 1, true) and true, string.find(flags, 'e', 1, true) and true
  name.first_end = tonumber(first[2] or 0)
  if #first > 0 then
    -- Where the holders were deleted by hand nobody stands, whatever was counted.
    name.exclusive, name.live, name.parts = tonumber(exclusive), tonumber(live), tonumber(parts)
    name.token, name.owner = token ~= '0' and token or nil, owner ~= '-' and owner or nil
    name.revoked = string.find(flags, 'r', 1, true) and true
  end
  return true
end

-- Reads who stands under `name` now: false if that is another library's, or another type. The second value is any other error of
-- the server, to be returned as it is: "not allowed" must not look like "not held". Read `as_a_write`, it begins with one that
-- changes nothing. `found` is the kind of what stands there.
local function read_standing(name, as_a_write)
  local value, fault = name.value, nil
  if not value then
    value, fault = read_value(name.main, as_a_write and AS_A_WRITE or 'GET')
  end
  local left = value and redis.call('PTTL', name.main)
  -- Read behind what is left, so that the end that follows from both is not before the lease's.
  name.now_us = server_now()
  name.now = math.floor(name.now_us / 1000)
  name.exclusive, name.live, name.parts = 0, 0, 0
  if not value then
    return value == false, fault
  end
  local kind, share, claim, token, flags = claim_of(value)
  if not kind then
    name.foreign = not is_marker(value) and value
    return read_inflated(name, value, left)
  end
  local flag = string.match(flags, '[rc]') or ''
  name.alone = { value = value, flag = flag, share = share, claim = claim, token = token, left = left }
  -- Without an end, which only somebody's hand can have taken from it, it is as if it had one that nobody sees. In its last ms it is
  -- still there.
  name.alone.ends = name.now + (left < 0 and 1e12 or math.max(left, 1))
  name.found, name.token, name.revoked = kind, token, flag == 'r'
  name.polled = string.find(flags, 'p', 1, true) and true
  if share == 'x' then
    name.exclusive, name.live = 1, flag == 'c' and 0 or 1
    name.owner = flag ~= 'c' and owner_of(claim) or nil
  else
    name.parts, name.limit = weight_of(share), limit_of(share)
  end
  return true
end
