-- redlock/raise: writes the largest token of a majority back to a server on which the claim holds, so that the next grant there has a
-- larger one. If the claim does not hold, nothing is written, because another claim may have drawn a token since. Extends no lease and
-- lowers no token.
--
-- KEYS[1] main     the value of one claim, see shared/value
-- KEYS[2] counter  the last token drawn by any name of the slot on this server, or written back to it
-- ARGV[1] request  echoed
-- ARGV[2] claim
-- ARGV[3] token    the largest that a majority granted
-- REPLY RAISED   the claim holds, and the next token here is larger
-- REPLY REVOKED  the claim holds but is revoked; nothing is written
-- REPLY GONE     expired, deleted, or replaced by another claim; nothing is written
-- PUBLISH nothing

local value, fault = read_value(KEYS[1], true)
if fault then
  return fault
end
local kind, share, claim, token, flags = claim_of(value)
if claim ~= ARGV[2] or string.find(flags, 'c', 1, true) then
  return { ARGV[1], 'GONE' }
end
if string.find(flags, 'r', 1, true) then
  return { ARGV[1], 'REVOKED' }
end
if token_number(ARGV[3]) > token_number(token) then
  write_value(KEYS[1], true, value_of(kind, share, claim, ARGV[3], flags))
end
if token_number(ARGV[3]) > last_token(KEYS[2]) then
  keep_token(KEYS[2], ARGV[3], server_now())
end
return { ARGV[1], 'RAISED' }
