-- shared/turns: the waiters of a name that one writes or many read take turns, see shared/queue and shared/phase: readers that
-- follow one another hold together.

-- How many readers one run lets in, whatever its items: a script must not hold up the server.
local room = 128

-- The first of the queue of `name`, as many as follow one another, wait to read and are alive, and as this run may still let
-- in; the last executed request of each, and for how long it reads at first, ms.
local function readers_in_front(name)
  local claims, entries = first_waiters(name, room - 1)
  local front, requests, ttls = {}, {}, {}
  for i = 1, #claims do
    local ends, request, mode = read_waiter(entries[i])
    if mode ~= 'read' or not is_alive(name, entries[i]) then
      break
    end
    front[i], requests[i], ttls[i] = claims[i], request, first_hold(name, ends)
  end
  return front, requests, ttls
end

-- Lets the readers in front of the queue of `name` in. '0' if the server refused one of the messages.
local function let_readers_in(name)
  local told = '1'
  local claims, requests, ttls = readers_in_front(name)
  withdraw(name, unpack(claims))
  share(name, claims, ttls)
  for i, claim in ipairs(claims) do
    if tell_granted(name, claim, name.read_token, requests[i]) == '0' then
      told = '0'
    end
  end
  room = room - #claims
  return told
end

-- Gives `name`, if a reader may have it, to the readers in front of its queue; sets `more` if those are too many for one run.
-- '0' if the server refused one of the messages.
local function let_all_in(name, mode)
  local told = '1'
  while mode == 'read' and not name.read_revoked do
    if room == 0 then
      name.more = true
      break
    end
    if let_readers_in(name) == '0' then
      told = '0'
    end
    mode = name.waits and select(3, next_waiter(name))
  end
  return told
end

-- Drops the dead in front of the queue of `name`, and gives it for one waiter ttl to those whose turn it is: to the writer in
-- front if nobody holds, to the readers in front, up to the next writer, if nobody writes. Each client is told. Sets `more` if
-- there is more than one run may do. '0' if the server refused one of the messages.
local function advance(name)
  if not name.ours or not name.queued or not name.waits then
    return '1'
  end
  local told = '1'
  local claim, request, mode, ends = next_waiter(name)
  if claim and not name.held.taken and name.fenced then
    if mode ~= 'read' and not name.reading then
      withdraw(name, claim)
      forget_dead(name)
      grant(name, claim, owner_of(claim), first_hold(name, ends))
      told = tell_granted(name, claim, name.held.token, request)
    else
      told = let_all_in(name, mode)
    end
  end
  if name.waits then
    mark_seen(name)
  end
  return told
end
