-- server/rights: what this user may not do of what locks of every kind need. Changes nothing.
--
-- ARGV[1] request  echoed
-- ARGV[2] main     a key of a name
-- ARGV[3] fence    another one
-- ARGV[4] wake     where waiters of the name are told of a release
-- ARGV[5] grant    where they are told that it is their turn
-- ARGV[6] client   where a client is told of what befalls its holds
-- REPLY RIGHTS missing  {command, key or channel}…; none of a server before 7.0, which cannot be asked
-- PUBLISH nothing

local missing, may = {}, redis.acl_check_cmd

-- Notes the command if it may not be sent about `what`, a key or a channel.
local function need(command, what, ...)
  if may and not may(command, what, ...) then
    missing[#missing + 1] = { command, what }
  end
end

for _, key in ipairs({ ARGV[2], ARGV[3] }) do
  for _, command in ipairs({ 'DEL', 'EXISTS', 'GET', 'PTTL' }) do
    need(command, key)
  end
  need('PEXPIRE', key, '1')
  need('SET', key, '')
end
for _, channel in ipairs({ ARGV[4], ARGV[5] }) do
  need(SEND, channel, '')
  need(LISTEN, channel)
end
need('SUBSCRIBE', ARGV[6])
return { ARGV[1], 'RIGHTS', missing }
