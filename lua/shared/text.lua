-- shared/text: strings: what clients note, and the numbers of Redisson.

-- A read that counts as a write and changes nothing: a replica refuses it instead of answering from its own data, and a
-- server whose memory is full accepts the writes that follow.
local AS_A_WRITE = 'GETEX'

-- The string at `key`, read by `command`, or false if there is none; nil if the key has another type. The second value
-- is any other error of the server, to be returned as it is: it must not look like "not held".
local function read_text(key, command)
  local text = redis.pcall(command, key)
  if type(text) ~= 'table' then
    return text
  end
  if string.find(text.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  return nil, text
end
