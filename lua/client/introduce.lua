-- client/introduce: makes known who a client is, for whoever inspects what it holds.
--
-- KEYS[1] client   the client's label, a string
-- ARGV[1] request  echoed
-- ARGV[2] label    as people read it
-- ARGV[3] ttl      ms
-- REPLY KNOWN label
-- PUBLISH nothing

redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return { ARGV[1], 'KNOWN', ARGV[2] }
