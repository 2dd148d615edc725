-- client/said: what one client has said of itself and of its claims, each item a key. Changes nothing.
--
-- KEYS[i] client   a text, as client/introduce writes it
-- ARGV[1] request  echoed
-- REPLY DONE outcome…  one for each item, in order
-- ITEM KNOWN label
-- ITEM GONE        nothing, too long ago, or another type
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
for i = 1, #KEYS do
  local text, fault = read_value(KEYS[i], AS_A_WRITE)
  if fault then
    return fault
  end
  reply[i + 2] = text and { 'KNOWN', text } or 'GONE'
end
return reply
