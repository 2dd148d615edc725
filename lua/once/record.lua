-- once/record: what has come of the work of a name; or deletes that, if it has this token: one that has come since stays.
--
-- KEYS[1] record     HASH: what has come of the work, see shared/record
-- ARGV[1] request    echoed
-- ARGV[2] forget     the token of the record that is deleted; 0: none is
-- REPLY STORED form value claim token at fingerprint left  the record, which stays
-- REPLY GONE         there is none, or there is none any more
-- REPLY WRONG_KIND   the key holds another type
-- PUBLISH nothing

local record, fault = read_record(KEYS[1])
if fault then
  return fault
end
if record == nil then
  return { ARGV[1], 'WRONG_KIND' }
end
if record and record[4] ~= ARGV[2] then
  return { ARGV[1], 'STORED', unpack(record) }
end
if record then
  redis.call('DEL', KEYS[1])
end
return { ARGV[1], 'GONE' }
