-- server/rights: reads which of the rights that locks of every kind need this user lacks. Changes nothing.
--
-- ARGV[1] request  echoed
-- ARGV[2] main     a key of a name
-- ARGV[3] wake     the channel on which pollers of the name learn of a release
-- ARGV[4] grant    the channel on which waiters learn of their grant
-- ARGV[5] client   the channel on which a client learns that its holds are revoked or gone
-- REPLY RIGHTS missing  {command, key or channel}…, or {command} alone; always empty before Redis 7.0, which cannot be asked
-- PUBLISH nothing

local missing, ask = {}, redis.acl_check_cmd

-- Notes a command that the user may not send, with its key or channel. A command that the server does not have is ignored.
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
need('RPUSH', ARGV[2], '')
need('LINDEX', ARGV[2], '0')
need('LREM', ARGV[2], '1', '')
need('LSET', ARGV[2], '0', '')
for _, channel in ipairs({ ARGV[3], ARGV[4] }) do
  need(SEND, channel, '')
  need(HEAR, channel)
end
need('SUBSCRIBE', ARGV[5])
need('TIME')
return { ARGV[1], 'RIGHTS', missing }
