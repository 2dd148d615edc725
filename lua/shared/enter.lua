-- shared/enter: a claim comes to hold a name that one owner writes or many read, see shared/phase.

-- Lets `claim`, which may wait, hold `name` in `mode` for `ttl` ms beside its owner, which writes. Its token.
local function come_in(name, claim, mode, ttl)
  if mode == 'write' then
    hold(name, claim, ttl)
    return name.held.token
  end
  if name.waits then
    withdraw(name, claim)
  end
  nest(name, claim, ttl, name.held.token)
  return name.held.token
end

-- Lets `claim` of `owner`, which does not hold, hold `name` in `mode` for `ttl` ms if nothing keeps it out: nobody who holds
-- excludes it, and it passes nobody but beside its own owner, whose claims are looked for if that is `known` to have some.
-- Its token; or nil, and the status to answer unless it is to wait.
local function enter(name, claim, owner, mode, ttl, known)
  if lets_in(name, owner) then
    return come_in(name, claim, mode, ttl)
  end
  local read = known and reads_of(name, owner)[1]
  if read and mode == 'write' then
    return nil, 'WOULD_DEADLOCK'
  end
  if not name.queued or not name.fenced then
    return nil, 'WRONG_KIND'
  end
  local _, token = read_of(name, read or claim)
  if read and token and not name.read_revoked then
    if name.waits then
      withdraw(name, claim)
    end
    nest(name, claim, ttl, token)
    return token
  end
  if name.more or name.held.taken or name.waits then
    return nil, name.more and 'MORE' or nil
  end
  if mode == 'read' and not name.read_revoked then
    share(name, { claim }, { ttl })
    return name.read_token
  end
  if mode == 'write' and not name.reading then
    forget_dead(name)
    grant(name, claim, owner, ttl)
    return name.held.token
  end
end
