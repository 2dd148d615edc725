-- shared/phase: a name that one owner writes or many read at a time, see shared/hold and shared/readers.

-- Reads `name` as of `now_us`, `ours` among it: false if its main key or its readers are another kind's data. The second value
-- is any other error of the server, to be returned as it is.
local function read_phase(name, now_us, as_a_write)
  name.kind = 'rwlock'
  local fault = read_name(name, now_us, as_a_write)
  if not fault then
    name.ours, fault = read_readers(name)
    name.ours = name.held and name.ours
  end
  return name.ours, fault
end

-- For how long `name` is held at least by those who hold it, ms.
local function left_of(name)
  return math.max(name.held.ends, name.read_until) - name.now
end

-- The end of the lease of `claim` in `mode`, 0 if it does not hold; its token, and whether it is revoked.
local function lease_of(name, claim, mode)
  if mode == 'write' then
    return name.held.leases[claim] or 0, name.held.token, name.held.revoked
  end
  local ends, token = read_of(name, claim)
  return ends, token, name.read_revoked
end

-- Arms the lease of `claim`, which holds `name` in `mode`, for `ttl` ms at least.
local function go_on(name, claim, mode, ttl)
  if mode == 'write' then
    hold(name, claim, ttl)
  else
    read_on(name, claim, ttl)
  end
end
