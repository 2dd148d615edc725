-- shared/uptime: how long this server has been up. A server that lost its data in a restart has a short uptime.

-- A lower bound of the uptime, ms: INFO gives whole seconds, which may be up to one second too many.
local function uptime()
  local seconds = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
  return math.max(tonumber(seconds or '0') - 1, 0) * 1000
end
