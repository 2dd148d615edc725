-- shared/redisson_latch: the main key of Redisson's RCountDownLatch, a string: how many counts are missing. The last count deletes it, so a latch that
-- is open and a latch that was never set look the same.

-- How many counts are missing, 0 if there is no key; nil if the key holds something else. The second value is any other error of the server, to be
-- returned as it is.
local function read_counts(main)
  local value, fault = read_text(main, AS_A_WRITE)
  if fault or value == nil or value and not (#value < 16 and (value == '0' or string.find(value, '^-?[1-9]%d*$'))) then
    return nil, fault
  end
  return tonumber(value or '0')
end
