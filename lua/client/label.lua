-- client/label: who a client is. Changes nothing.
--
-- KEYS[1] client   the client's label, a string
-- ARGV[1] request  echoed
-- REPLY KNOWN label
-- REPLY GONE  it has not introduced itself, or too long ago
-- PUBLISH nothing

local label, fault = read_value(KEYS[1], AS_A_WRITE)
if fault then
  return fault
end
if label then
  return { ARGV[1], 'KNOWN', label }
end
return { ARGV[1], 'GONE' }
