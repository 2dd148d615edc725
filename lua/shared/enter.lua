-- shared/enter: acquires a name that has been read, see shared/queue.
--
-- A server whose memory is full must refuse newcomers. It checks only the writes of a script up to the first one that it executes. So before a
-- script may remove anything for a newcomer, it sends a write that changes nothing and is refused if memory is full. A script that begins as a
-- write has passed by then.

-- Reads `name` for an acquisition. If nobody holds or waits, deletes what is left of the name, whatever its kind was. Returns whether
-- the name can be used for the caller's kind. The second value is any other error of the server, to be returned as it is.
local function read_for(name, as_a_write)
  local readable, fault = read_name(name, as_a_write)
  if readable and name.inflated and not as_a_write and (name.waits or not is_taken(name)) then
    redis.call('ZADD', name.holders, 'XX', '0', 'none')
  end
  if readable and name.found ~= name.kind and name.waits and not is_taken(name) then
    -- Live waiters reserve the name for their kind, dead ones do not.
    next_waiter(name)
  end
  if readable and name.inflated and not is_taken(name) and not name.waits and not name.more then
    forget(name)
  end
  return readable and (name.found or name.kind) == name.kind, fault
end

-- Grants `name` to `claim` for `ttl` ms, or extends its lease to at least that if it holds already. `ends` and `flag` are the results of
-- lease_of for it; `polled_by_client` says that other claims of its client poll the name. The claim is granted if its owner holds, or if it
-- fits and nobody waits. Returns its token; or nil, and whether it would wait for its own owner.
local function enter(name, share, claim, ttl, polled_by_client, ends, flag)
  if ends > name.now and flag == '' then
    go_on(name, share, claim, ends, ttl)
    return token_of(name, share, claim)
  end
  if ends > 0 and ends <= name.now then
    -- Its lease has ended, but it is still counted.
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
