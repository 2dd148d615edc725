-- client/said: reads the labels of clients and the notes of their claims; each item is one key. Changes nothing.
--
-- KEYS[i] client   a text, as written by client/introduce
-- ARGV[1] request  echoed
-- REPLY DONE outcome…  one for each item, in order
-- ITEM KNOWN label
-- ITEM GONE        no text, an expired text, or a key of another type
-- PUBLISH nothing

local reply = { ARGV[1], 'DONE' }
for i = 1, #KEYS do
  local text, fault = read_text(KEYS[i], AS_A_WRITE)
  if fault then
    return fault
  end
  reply[i + 2] = text and { 'KNOWN', text } or 'GONE'
end
return reply
