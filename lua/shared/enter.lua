-- shared/enter: a claim comes to a name that has been read, see shared/queue.

-- Reads `name` for an acquisition, and takes away what is left where nobody stands and nobody waits, whatever its kind was. Whether
-- the name can be used for its kind. The second value is any error of the server, to be returned as it is.
local function read_for(name, as_a_write)
  local readable, fault = read_name(name, as_a_write)
  if readable and name.found ~= name.kind and name.waits and not is_taken(name) then
    -- Those alive keep it to their kind, and the dead do not.
    next_waiter(name)
  end
  if readable and name.inflated and not is_taken(name) and not name.waits and not name.more then
    forget(name)
  end
  return readable and (name.found or name.kind) == name.kind, fault
end

-- Lets `claim` hold `name` for `ttl` ms, or at least so long if it holds already. `ends` and `flag` are what lease_of found of it, and
-- `polled_by_client` says that others of its client poll the name. It is let in if its owner holds, and otherwise if it fits and nobody
-- waits. Its token; or nil, and whether it would wait for its own owner.
local function enter(name, share, claim, ttl, polled_by_client, ends, flag)
  if ends > name.now and flag == '' then
    go_on(name, share, claim, ends, ttl)
    return token_of(name, share, claim)
  end
  if ends > 0 and ends <= name.now then
    -- Its lease has ended, and it is still counted.
    redis.call('ZREM', name.holders, member_of(flag, share, claim))
    name.first_end = nil
    uncount(name, flag, share, claim)
  end
  local nested, waits_for_itself = is_nested(name, share, claim)
  if waits_for_itself then
    return nil, true
  end
  if not nested and (name.waits or name.more or not fits(name, share)) then
    return nil, false
  end
  if name.waits then
    withdraw(name, member_of('', share, claim))
  end
  name.polled = name.polled or polled_by_client
  return admit(name, share, claim, ttl)
end
