-- shared/record: what has come of the work of a name, a HASH that ends by itself. Its fields: `form`, `text` or `hex` of a result, `failed` if
-- there is none; `value`, the result in that form; `claim` and `token` of whoever did the work; `at`, the server's ms when it was stored;
-- `fingerprint` of the request, empty if it has none.

-- The record at `key`: its fields in this order, and for how long it is known, ms; false if there is none, nil if the key holds another type. The
-- second value is any other error of the server, to be returned as it is: "not allowed" must not look like "not done".
local function read_record(key)
  -- A field that no record has: it counts as a write and changes nothing, so that a replica refuses it, as AS_A_WRITE does for a string.
  local record = redis.pcall('HDEL', key, 'none')
  if type(record) == 'number' then
    record = redis.pcall('HMGET', key, 'form', 'value', 'claim', 'token', 'at', 'fingerprint')
  end
  if record.err then
    return nil, not string.find(record.err, 'WRONGTYPE', 1, true) and record or nil
  end
  for i = 1, 6 do
    if not record[i] then
      return false
    end
  end
  record[7] = redis.call('PTTL', key)
  return record
end
