-- client/introduce: stores the label of a client, or the note of one of its claims, for people who inspect a lock.
--
-- KEYS[1] client   the text, a string
-- ARGV[1] request  echoed
-- ARGV[2] label    the text; empty: deletes it
-- ARGV[3] ttl      of the text, ms
-- REPLY KNOWN label
-- PUBLISH nothing

if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return { ARGV[1], 'KNOWN', ARGV[2] }
