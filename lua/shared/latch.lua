-- shared/latch: a latch, which opens after enough counts. Its main key has a value in the format of one claim, see shared/value:
-- `latch <left>/<n> <claim> 0`. `left` of its `n` counts are missing, 0: it is open; `claim` armed it. While it is armed, `counted` is a ZSET:
-- the ids that have counted, and an empty id, whose score is the latch's ttl in ms. That key lives for twice the ttl, so that a latch that has
-- ended can be told from one that was never armed.

-- The latch at `main`; nil if the name or `counted` holds something else. Its `state` is absent, armed, open, or ended: no count came for its ttl, or
-- one of its keys was lost. The second value is any other error of the server, to be returned as it is. `as_a_write` as for read_value.
local function read_latch(main, counted, as_a_write)
  local value, fault = read_value(main, as_a_write)
  local found = redis.pcall('ZMSCORE', counted, '')
  if fault or found.err then
    return nil, fault or not string.find(found.err, 'WRONGTYPE', 1, true) and found or nil
  end
  local kind, share, claim = claim_of(value)
  local latch = { stands = value ~= false, ttl = found[1], left = weight_of(share), n = limit_of(share), claim = claim }
  if value ~= false and not (kind == 'latch' and latch.n) then
    return nil
  end
  if value and (latch.left == 0 or latch.ttl) then
    latch.state = latch.left == 0 and 'open' or 'armed'
  else
    latch.state = (value or latch.ttl) and 'ended' or 'absent'
  end
  return latch
end

-- Writes that `left` of `n` counts are missing for the latch at `main`, which `claim` armed, and which lives for `ttl` ms from now. `stands` says
-- whether a latch is there.
local function write_latch(main, stands, left, n, claim, ttl)
  write_value(main, stands, value_of('latch', string.format('%.0f/%.0f', left, n), claim, '0', ''), string.format('%.0f', ttl))
end

-- Extends the life of the ids that have counted, for a latch with this `ttl`.
local function keep_counted(counted, ttl)
  redis.call('PEXPIRE', counted, string.format('%.0f', 2 * ttl))
end
