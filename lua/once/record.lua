-- once/record: reads the outcome of the work of a name. If the outcome has the token in `forget`, deletes it instead; a newer outcome stays.
--
-- KEYS[1] record     HASH: the outcome of the work, see shared/record
-- ARGV[1] request    echoed
-- ARGV[2] forget     the token of the record to delete; 0: deletes none
-- REPLY STORED form value claim token at fingerprint left  the record, which stays
-- REPLY GONE         there is no record, or it was deleted
-- REPLY WRONG_KIND   the key has another type
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
