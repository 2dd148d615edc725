-- server/describe: reads the server's clock and INFO. Changes nothing.
--
-- ARGV[1] request  echoed
-- REPLY SERVER seconds micros info  the server's clock, and the text of INFO; empty if the server refuses it
-- PUBLISH nothing

local info = redis.pcall('INFO')
local time = redis.pcall('TIME')
local fault = time.err and time
if fault then
  return fault
end
return { ARGV[1], 'SERVER', time[1], time[2], type(info) == 'string' and info or '' }
