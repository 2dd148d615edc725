-- shared/record: the outcome of the work of a name, a HASH that expires. Its fields: `form`, `text` or `hex` for a result, `failed` if
-- there is none; `value`, the result in that form; `claim`, which did the work, and its `token`; `at`, when it was stored, server ms;
-- `fingerprint` of the request, empty if it has none.

-- The record at `key`: its fields in this order, and how long it is still stored, ms; false if there is none, nil if the key has another type. The
-- second value is any other error of the server, to be returned as it is: "not allowed" must not look like "not done". With `acquires`, the work is
-- to be done if there is no record: then nothing is written, because a full server must refuse that, see shared/enter.
local function read_record(key, acquires)
  local record, missing = redis.pcall('HMGET', key, 'form', 'value', 'claim', 'token', 'at', 'fingerprint'), false
  for i = 1, 6 do
    missing = missing or not record[i]
  end
  if not record.err and not (acquires and missing) then
    -- Deletes a field that no record has. This counts as a write and changes nothing, so a replica refuses it, as in shared/value.
    local written = redis.pcall('HDEL', key, 'none')
    record = type(written) == 'table' and written or record
  end
  if record.err then
    return nil, not string.find(record.err, 'WRONGTYPE', 1, true) and record or nil
  end
  if missing then
    return false
  end
  record[7] = redis.call('PTTL', key)
  return record
end
