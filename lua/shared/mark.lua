-- shared/mark: a mark against requests of a claim that may still come.

-- Makes the mark at `key` for `ttl` ms; '0': nothing of the claim is unanswered, no mark.
local function mark(key, ttl)
  if ttl ~= '0' then
    redis.call('SET', key, '1', 'PX', ttl)
  end
end
