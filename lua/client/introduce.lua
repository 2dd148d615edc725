-- client/introduce: makes known who a client is, or what it says of one of its claims, for whoever inspects what it holds.
--
-- KEYS[1] client   the text, a string
-- ARGV[1] request  echoed
-- ARGV[2] label    as people read it; empty: forgets it
-- ARGV[3] ttl      ms
-- REPLY KNOWN label
-- PUBLISH nothing

if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return { ARGV[1], 'KNOWN', ARGV[2] }
