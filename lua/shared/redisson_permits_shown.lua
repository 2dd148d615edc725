-- shared/redisson_permits_shown: how Java shows a permit of a semaphore of Redisson's that has an end.

-- The digits for these bytes, two for each.
local function hex_of(bytes)
  return (string.gsub(bytes, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end))
end
