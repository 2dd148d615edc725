-- server/scan: a page of the keys that match. Changes nothing. A key that is there all the while is on one page at least,
-- and may be on several.
--
-- ARGV[1] request  echoed
-- ARGV[2] cursor   0, and then as answered
-- ARGV[3] pattern  of whole keys, as SCAN takes it
-- ARGV[4] count    at how many keys the server looks, about
-- REPLY PAGE cursor keys  cursor: of the next page, 0 after the last
-- PUBLISH nothing

local page = redis.pcall('SCAN', ARGV[2], 'MATCH', ARGV[3], 'COUNT', ARGV[4])
local fault = page.err and page
if fault then
  return fault
end
return { ARGV[1], 'PAGE', page[1], page[2] }
