-- shared/queue: the claims that wait for an inflated name, see shared/standing. `queue` is a ZSET: `<share>:<claim>` -> its ticket.
-- For each of them, `state` has a field `<claim>` -> `<server ms until which it is alive>:<its waiter ttl>:<number of its last executed request>`.
-- It also has `seen`, when a script last read the queue, and `grace`, `<from>:<at>:<gaps>`. Here a `name` also has `waiter_ttl`, the caller's, and
-- `channel`, the prefix of the grant channels.

-- After this many gaps in a row, the likely reason is that hardly any client asks, and that the earlier waiters are dead.
local GAPS_IN_A_ROW = 3

-- The claims of members of the queue; for an invalid member a field that belongs to no claim, so that the member is dropped as dead.
local function claims_of(members)
  local claims = {}
  for i, member in ipairs(members) do
    claims[i] = select(3, parts_of(member)) or 'seen'
  end
  return claims
end

-- Reads whether any claim `waits` for `name`, and which waiters are in grace: if no script read the queue for half a waiter ttl, the caller's or the
-- first waiter's, then no waiter could be heard, so waiters that were alive at the last read (`from`) count as alive for one more ttl of
-- their own, from now (`at`). False if a key has another type. The second value is any other error of the server, to be returned as it is.
local function read_queue(name)
  if not name.inflated then
    return true
  end
  local heads = redis.pcall('ZRANGE', name.queue, '0', '0')
  local facts = heads.err and heads or redis.pcall('HMGET', name.state, 'seen', 'grace', claims_of(heads)[1] or 'seen')
  if facts.err then
    return false, not string.find(facts.err, 'WRONGTYPE', 1, true) and facts or nil
  end
  local seen = tonumber(facts[1] or '') or name.now
  local from, at, gaps = string.match(facts[2] or '', '^(%d+):(%d+):(%d+)$')
  from, at, gaps = tonumber(from or 0), tonumber(at or 0), tonumber(gaps or 0)
  local waiter_ttl = name.waiter_ttl
  if name.now - seen > waiter_ttl / 2 then
    waiter_ttl = math.max(waiter_ttl, tonumber(string.match(facts[3] or '', '^%d+:(%d+):') or 0))
  end
  if name.now - seen > waiter_ttl / 2 then
    -- Waiters that were in grace before, and have not been heard since, were alive then too.
    if at + waiter_ttl < seen or gaps >= GAPS_IN_A_ROW then
      from, gaps = seen, 0
    end
    at, gaps = name.now, gaps + 1
    name.grace = string.format('%.0f:%.0f:%.0f', from, at, gaps)
  end
  if at > 0 then
    name.grace_from, name.grace_at = from, at
  end
  name.waits, name.head, name.entry = #heads > 0, heads[1], facts[3]
  return true
end

-- Reads the claims under `name` and its queue: false if a key has another type, or the value is another library's. The
-- second value is any other error of the server, to be returned as it is.
local function read_name(name, as_a_write)
  local readable, fault = read_standing(name, as_a_write)
  if not readable then
    return false, fault
  end
  if name.inflated then
    bury(name)
  end
  return read_queue(name)
end
