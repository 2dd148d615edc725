-- shared/redisson_permits_shown: the id by which Java shows a permit of an RPermitExpirableSemaphore.

-- The hex digits of these bytes, two for each.
local function hex_of(bytes)
  return (string.gsub(bytes, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end))
end
