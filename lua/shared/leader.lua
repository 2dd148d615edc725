-- shared/leader: who leads a name, and what it has proclaimed, in three fields of `state`, see shared/standing. `proclaimed` is
-- `<term> <number> <server ms>`: the leader of that term has proclaimed its `number`th value, and its first value at that server time. `label` is
-- that of its client, and `value` the proclaimed value. If the term is not that of the present leader, these fields have no meaning.

-- The claim that leads `name`, which has been read, and for how long, ms (negative: without end); nil if nobody leads. Claims that take
-- all of a name follow one another, so of several claims the one that ends last is the live one.
local function leading(name)
  local alone = name.alone
  if alone and alone.flag ~= 'c' then
    return alone.claim, alone.left
  end
  local last = name.inflated and redis.call('ZRANGE', name.holders, '-1', '-1', 'WITHSCORES') or {}
  local flag, share, claim = parts_of(last[1] or '')
  local left = tonumber(last[2] or 0) - name.now
  if share and flag ~= 'c' and left > 0 then
    return claim, left
  end
end

-- What the leader of `name` has proclaimed: number, time, label and value; '0', '0', '' and '' if it has proclaimed nothing. Nil if the
-- key has another type; the second value is any other error of the server, to be returned as it is.
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
