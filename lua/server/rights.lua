-- server/rights: what this user may not do of what locks of all kinds have in common. Changes nothing.
--
-- ARGV[1] request  echoed
-- ARGV[2] main     a key of a name
-- ARGV[3] wake     where waiters of the name are told of a release
-- ARGV[4] grant    where they are told that it is their turn
-- ARGV[5] client   where a client is told of what befalls its holds
-- REPLY RIGHTS missing  {command, key or channel}…, or {command} alone; none of a server before 7.0, which cannot be asked
-- PUBLISH nothing

local missing, ask = {}, redis.acl_check_cmd

-- Notes a command that may not be sent, with what it is about. One that the server does not have is no matter of rights.
local function need(command, ...)
  if not ask then
    return
  end
  local known, may = pcall(ask, command, ...)
  if known and not may then
    missing[#missing + 1] = { command, (...) }
  end
end

for _, command in ipairs({ 'DEL', 'EXISTS', 'GET', 'PTTL' }) do
  need(command, ARGV[2])
end
need('PEXPIRE', ARGV[2], '1')
need('SET', ARGV[2], '')
for _, channel in ipairs({ ARGV[3], ARGV[4] }) do
  need(SEND, channel, '')
  need(HEAR, channel)
end
need('SUBSCRIBE', ARGV[5])
need('TIME')
return { ARGV[1], 'RIGHTS', missing }
