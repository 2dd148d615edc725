-- server/describe: what the server is, and what it takes the time to be. Changes nothing.
--
-- ARGV[1] request  echoed
-- REPLY SERVER seconds micros info  its clock, and what INFO says; empty if it does not
-- PUBLISH nothing

local info = redis.pcall('INFO')
local time = redis.pcall('TIME')
local fault = time.err and time
if fault then
  return fault
end
return { ARGV[1], 'SERVER', time[1], time[2], type(info) == 'string' and info or '' }
