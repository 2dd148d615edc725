-- shared/leader: who leads a name, and by what it is known. Fields of `state`, see shared/standing: `proclaimed` -> `<term> <number> <server ms>`
-- of the value that the leader of that term has proclaimed, the `number`th of the term, which began to be known at that time; `label`, of its
-- client; and `value`. With the term of any other claim they mean nothing.

-- The claim that leads `name`, which has been read, and for how long, ms (negative: without an end); nil if nobody does. Claims that take
-- all of a name stand there one after the other, so of several the last to end is the one that lives.
local function leading(name)
  local alone = name.alone
  if alone and alone.flag ~= 'c' then
    return alone.claim, alone.left
  end
  local last = name.inflated and redis.call('ZRANGE', name.holders, -1, -1, 'WITHSCORES') or {}
  local flag, share, claim = parts_of(last[1] or '')
  local left = tonumber(last[2] or 0) - name.now
  if share and flag ~= 'c' and left > 0 then
    return claim, left
  end
end

-- What the leader of `name` has proclaimed: the number, the time, the label and the value; '0', '0' and empty ones if nothing. Nil if the key
-- holds another type; the second value is any other error of the server, to be returned as it is.
local function proclaimed(name)
  local found = name.inflated and redis.pcall('HMGET', name.state, 'proclaimed', 'label', 'value') or {}
  if found.err then
    return nil, not string.find(found.err, 'WRONGTYPE', 1, true) and found or nil
  end
  local term, number, since = string.match(found[1] or '', '^(%d+) (%d+) (%d+)$')
  if term == name.token and found[2] and found[3] then
    return { number, since, found[2], found[3] }
  end
  return { '0', '0', '', '' }
end
