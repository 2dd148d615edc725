-- shared/holder: reads the claim in a string key, telling "another type" from "not allowed" and "not here". A word before the
-- claim says what has become of it: `revoked:<claim>` is revoked and is not renewed, `kept:<claim>` has left and the name
-- is kept from others for a while.

-- A read that counts as a write and changes nothing: a replica refuses it instead of answering from what it has, and a
-- server whose memory is full lets the writes behind it pass.
local AS_A_WRITE = 'GETEX'

-- The string at `key`, read by `command`, or false if there is none; nil if the key holds another type. The second value
-- is any other error of the server, to be returned as it is: it must not look like "not held".
local function read_claim(key, command)
  local value = redis.pcall(command, key)
  if type(value) ~= 'table' then
    return value
  end
  if string.find(value.err, 'WRONGTYPE', 1, true) then
    return nil
  end
  return nil, value
end

-- The claim in what was read, and what has become of it: held, revoked or kept.
local function claim_in(value)
  local word, claim = string.match(value or '', '^(%l+):(.*)$')
  if word == 'revoked' or word == 'kept' then
    return claim, word
  end
  return value, 'held'
end
