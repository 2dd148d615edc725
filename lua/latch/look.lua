-- latch/look: what has come of the latch of a name. Asked by those who wait for it, whose claims never hold, and who are answered as by
-- once/acquire. Changes nothing: waiting keeps no latch alive.
--
-- KEYS[1] main     the latch, see shared/latch
-- KEYS[2] counted  ZSET: the ids that have counted, and the empty one, whose score is the ttl
-- ARGV[1] request  echoed
-- REPLY BUSY left foreign remaining                           it is armed and ends in `left` ms, unless somebody counts; foreign: 0; so many counts are to come
-- REPLY STORED form value claim token at fingerprint left     it is not: form is text, and value open, ended or absent; claim armed it; left as
--                                                             PTTL has it; nothing is to be read from the others
-- REPLY WRONG_KIND                                            the name holds something else
-- PUBLISH nothing

local latch, fault = read_latch(KEYS[1], KEYS[2], AS_A_WRITE)
if fault then
  return fault
end
if not latch then
  return { ARGV[1], 'WRONG_KIND' }
end
local left = redis.call('PTTL', KEYS[1])
if latch.state == 'armed' then
  return { ARGV[1], 'BUSY', left, 0, latch.left }
end
return { ARGV[1], 'STORED', 'text', latch.state, latch.claim or '', '0', '0', '', left }
