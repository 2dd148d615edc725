-- server/scan: reads a page of the keys that match. Changes nothing. A key that exists during the whole scan is on at least one page,
-- and may be on several.
--
-- ARGV[1] request  echoed
-- ARGV[2] cursor   0 for the first page, then the one from the previous reply
-- ARGV[3] pattern  for whole keys, as in SCAN
-- ARGV[4] count    about how many keys the server examines
-- REPLY PAGE cursor keys  cursor: for the next page, 0 after the last
-- PUBLISH nothing

local page = redis.pcall('SCAN', ARGV[2], 'MATCH', ARGV[3], 'COUNT', ARGV[4])
local fault = page.err and page
if fault then
  return fault
end
return { ARGV[1], 'PAGE', page[1], page[2] }
