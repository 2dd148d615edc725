-- latch/look: reads the state of a latch. Its waiters ask with this script; their claims never hold, and they get the answers of
-- once/acquire. Changes nothing: waiting does not extend the life of a latch.
--
-- KEYS[1] main     the latch, see shared/latch
-- KEYS[2] counted  ZSET: the ids that have counted, and an empty id, whose score is the ttl
-- ARGV[1] request  echoed
-- REPLY BUSY left foreign remaining                        armed: `remaining` counts are missing, and without one it ends in `left` ms; foreign: 0
-- REPLY STORED form value claim token at fingerprint left  it is not armed: form is text, and value open, ended or absent; claim armed it, empty if
--                                                          unknown; left as returned by PTTL; the other fields have no meaning
-- REPLY WRONG_KIND                                         the name holds something else
-- PUBLISH nothing

local latch, fault = read_latch(KEYS[1], KEYS[2], true)
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
