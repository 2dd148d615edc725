-- shared/uptime: how long this server has been up. One that lost its data by a restart says so by having just begun.

-- How long the server has been up, ms, at least: it counts whole seconds of two clocks' faces.
local function uptime()
  local seconds = string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')
  return math.max(tonumber(seconds or '0') - 1, 0) * 1000
end
