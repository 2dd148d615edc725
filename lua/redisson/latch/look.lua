-- redisson/latch/look: reads the state of a latch of Redisson's. Its waiters ask with this script; their claims never hold, and they get the answers
-- of once/acquire. Changes nothing.
--
-- KEYS[1] main     how many counts are missing; no key: the latch is open or was never set
-- ARGV[1] request  echoed
-- REPLY BUSY left foreign remaining                        `remaining` counts are missing; the key expires in `left` ms, negative: never; foreign: 0
-- REPLY STORED form value claim token at fingerprint left  it is open or absent: form is text, and value open; the other fields have no meaning
-- REPLY WRONG_KIND                                         the name holds something else
-- PUBLISH nothing

local missing, fault = read_counts(KEYS[1])
if fault then
  return fault
end
if not missing then
  return { ARGV[1], 'WRONG_KIND' }
end
if missing > 0 then
  return { ARGV[1], 'BUSY', redis.call('PTTL', KEYS[1]), 0, missing }
end
return { ARGV[1], 'STORED', 'text', 'open', '', '0', '0', '', -1 }
