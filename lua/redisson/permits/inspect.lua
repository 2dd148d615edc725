-- redisson/permits/inspect: reads who holds permits of a semaphore of Redisson's, for people. Changes nothing.
--
-- KEYS[1] main     how many permits are available, see shared/redisson_permits
-- KEYS[2] ends     ZSET: when the held permits end, server ms
-- KEYS[3] claims   HASH: the data about our claims
-- ARGV[1] request  echoed
-- ARGV[2] channel  on which waiters listen, Redisson's clients too
-- ARGV[3] kind
-- ARGV[4] leased   1 if the permits end in Redisson too, as those of an RPermitExpirableSemaphore
-- REPLY FOUND kind token waiters claims limit  our claims; if leased, also those of the first 1,000 permits to end that are not ours, each by the id
--                                              that Java shows; token: of a single claim that is ours, otherwise empty; limit: 0
-- REPLY FREE waiters  nobody is known to hold; `waiters` clients listen for a wake; negative: the server does not say
-- REPLY WRONG_KIND    the name holds something else
-- PUBLISH nothing

local leased = ARGV[4] == '1'
local value, fault = read_permits(KEYS[1], KEYS[2], KEYS[3], leased)
if fault then
  return fault
end
if value == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
local now, found, shown, token = math.floor(server_now() / 1000), {}, {}, ''
for _, claim in ipairs(redis.call('HKEYS', KEYS[3])) do
  local hold = hold_of(KEYS[2], KEYS[3], claim, leased, now)
  if hold and hold.left > 0 then
    local state = hold.flags == 'c' and 'cooldown' or hold.flags == 'r' and 'revoked' or 'held'
    found[#found + 1] = { claim, hold.left, state, table.concat({ hold.permits, '/0' }) }
    token, shown[claim] = #found == 1 and hold.token or '', true
  end
end
local others = leased and redis.call('ZRANGE', KEYS[2], 0, 999, 'WITHSCORES') or {}
for i = 1, #others, 2 do
  local left = tonumber(others[i + 1]) - now
  if left > 0 and not shown[redis.call('HGET', KEYS[3], others[i])] then
    found[#found + 1] = { hex_of(others[i]), left < KEPT and left or -1, 'held', '1/0' }
    token = ''
  end
end
if #found == 0 then
  return { ARGV[1], 'FREE', listeners(ARGV[2]) }
end
return { ARGV[1], 'FOUND', ARGV[3], token, listeners(ARGV[2]), found, 0 }
