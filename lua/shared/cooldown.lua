-- shared/cooldown: a claim that leaves before its shortest time of holding is over keeps the name from others for the rest.

-- Keeps the string at `key` from others for `keep` ms more, unless it is kept already. Whether waiters, who count on
-- another end, were told.
local function keep_text(key, claim, state, keep, channel)
  if state == 'kept' then
    return '1'
  end
  redis.call('SET', key, string.format('kept:%s', claim), 'PX', string.format('%.0f', keep))
  return wake(channel, 'kept')
end
