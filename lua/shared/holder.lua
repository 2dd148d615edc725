-- shared/holder: reads the claim in a string key by a command that counts as a write and changes nothing. So a replica
-- refuses it instead of answering from what it has, and a server whose memory is full lets the writes behind it pass.

-- The string at `key`, or false if there is none; nil if the key holds another type. The second value is any other error
-- of the server, to be returned as it is: "not allowed" and "not here" must not look like "not held".
local function read_claim(key)
  local value = redis.pcall('GETEX', key)
  if type(value) ~= 'table' then
    return value
  end
  if string.find(value.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  return nil, value
end
