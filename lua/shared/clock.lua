-- shared/clock: the server's time, the only clock of a script. Read once, because before Redis 7.2 it advances during a script.

-- Now, µs.
local function server_now()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
