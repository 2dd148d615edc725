-- shared/turns: grants a name to its waiters in turn, see shared/queue.

-- Tells the client of `claim` that it holds `name` with `token`, as of its last `request`: `G <claim> <token> <request>`. Returns '0' if
-- the server refused that message.
local function tell_granted(name, claim, token, request)
  local client = client_of(claim)
  local message = 'G ' .. claim .. ' ' .. token .. ' ' .. request
  return client and wake(name.channel .. ':' .. client, message) or '0'
end

-- Whether a share is more than all of `name`.
local function is_over_limit(name, share)
  return name.limit and (weight_of(share) or 0) > name.limit
end

-- Grants `name` to the first waiters in its queue, as many as fit, each until the moment until which it was alive as a waiter, and tells their clients. Drops
-- dead waiters in front of them, and waiters that are over the limit. Sets `more` if there is more to do than one run may do. Returns
-- '0' if the server refused a message; and whether any claim was granted.
local function advance(name)
  local told, granted = '1', false
  name.looked = true
  while name.waits do
    local member, request, ends = next_waiter(name)
    if not member or is_taken(name) and name.more then
      break
    end
    local _, share, claim = parts_of(member)
    local is_over = is_over_limit(name, share)
    if not is_over and not fits(name, share) and not lets_in(name, claim) then
      break
    end
    if room == 0 then
      name.more = true
      break
    end
    room = room - 1
    withdraw(name, member)
    -- After the limit was lowered, a waiter may be over it, and would block all waiters behind it: it is dropped, learns that it has no place,
    -- and what the limit is. A client counts on the lease for one waiter ttl from the send of the last request that was executed, which is what
    -- the claim is alive for. A longer lease would let a dead waiter hold for longer than it counts as alive.
    local token = not is_over and admit(name, share, claim, ends - name.now)
    if token and tell_granted(name, claim, token, request) == '0' then
      told = '0'
    end
    granted = granted or token
  end
  if not name.waits and not is_taken(name) then
    -- The limit belonged to the claims that were there.
    name.limit = nil
  end
  return told, granted
end
