-- shared/standing: the claims under a name: those that hold, and released ones in cooldown. A `name` in these scripts is a table: its
-- keys `main`, `counter`, `holders`, `queue` and `state`; its `kind`, and `reenters`, whether an owner that holds may acquire again; the
-- caller's `floor`. What is usually false or missing is not set: the 33rd field of a table costs
-- 3 µs, because then the table is copied into a larger one.
--
-- While one claim holds alone, its value contains everything, see shared/value. A name with several claims or with waiters is
-- *inflated*: the value is a marker, `<kind> * <exclusive> <live> <parts> <token> <flags> <owner>`, and the other keys contain
-- the rest. Without a marker they have no meaning.
--
-- `exclusive` is the number of claims that take all of the name, `live` the number of those not in cooldown. `parts` is how many parts the other
-- claims take together, written `<parts>/<limit>` if there is a limit; that limit applies while any claim holds or waits, whatever a new share
-- says. `token` is the one that the claims share, or 0; `owner` that of the live exclusive claims, or `-`. The flags are `-`, then `e` if the kind
-- lets an owner that holds acquire again, `r` if no new claim may join because the present ones are revoked, and `p` as in shared/value.
--
-- `holders` is a ZSET: `<flag><share>:<claim>` -> when its lease ends, server ms, where the flag is nothing, `r` or `c`. `state` is a
-- HASH; one of its fields is `o:<owner>` -> `<claims> <token>` for an owner whose claims take parts, or `o:<claim>` in a kind that does
-- not let owners acquire again.

-- Reads the marker `value`, which expires in `left` ms. Returns the same as read_standing.
local function read_inflated(name, value, left)
  local kind, exclusive, live, parts, limit, token, reenters, revoked, polled_by, owner =
    string.match(value, '^(%l+) %* (%d+) (%d+) (%d+)/?(%d*) (%d+) %-(e?)(r?)(p?)%l* (%S+)$')
  local first = kind and redis.pcall('ZRANGE', name.holders, '0', '0', 'WITHSCORES')
  if not kind or first.err then
    return false, kind and not string.find(first.err, 'WRONGTYPE', 1, true) and first or nil
  end
  name.found, name.inflated, name.left = kind, true, left
  if limit ~= '' then
    name.limit = tonumber(limit)
  end
  name.polled, name.reenters = polled_by ~= '', reenters ~= ''
  name.first_end = tonumber(first[2] or 0)
  if #first > 0 then
    -- If the holders' key was deleted by hand, there are no claims, whatever the marker counts.
    name.exclusive, name.live, name.parts = tonumber(exclusive), tonumber(live), tonumber(parts)
    name.token, name.owner = token ~= '0' and token or nil, owner ~= '-' and owner or nil
    if revoked ~= '' then
      name.revoked = true
    end
  end
  return true
end

-- Reads the claims under `name` now: false if the value is another library's, or has another type. The second value is any other error of
-- the server, to be returned as it is: "not allowed" must not look like "not held". With `as_a_write`, it begins with a write that changes
-- nothing. Sets `found` to the kind of the claims.
local function read_standing(name, as_a_write)
  local value, fault = read_value(name.main, as_a_write)
  local left = value and redis.call('PTTL', name.main)
  -- Read after the time left, so that the end computed from both is not before the end of the lease.
  name.now_us = server_now()
  name.now = math.floor(name.now_us / 1000)
  name.exclusive, name.live, name.parts = 0, 0, 0
  if is_marker(value) then
    return read_inflated(name, value, left)
  end
  local kind, share, claim, token, flags = claim_of(value)
  if not kind then
    name.foreign = string.match(value or '', '^ (.*)$')
    return value == false, fault
  end
  local flag = string.match(flags, '[rc]') or ''
  name.alone = { value = value, flag = flag, share = share, claim = claim, token = token, left = left }
  -- A value without expiry, which only manual intervention can cause, is treated as if it ended far in the future. In its last ms a
  -- lease still counts.
  name.alone.ends = name.now + (left < 0 and 1e12 or math.max(left, 1))
  name.found, name.token, name.polled = kind, token, string.find(flags, 'p', 1, true) and true
  -- No claim joins a revoked one and gets its token; permits of a semaphore each have their own.
  name.revoked = flag == 'r' and (share == 'x' or name.reenters)
  if share == 'x' then
    name.exclusive, name.live = 1, flag == 'c' and 0 or 1
    name.owner = flag ~= 'c' and owner_of(claim) or nil
  else
    name.parts, name.limit = weight_of(share), limit_of(share)
  end
  return true
end
