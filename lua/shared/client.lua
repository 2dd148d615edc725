-- shared/client: the client and the owner in a claim.

-- The client of `claim`; nil if it is no claim of ours.
local function client_of(claim)
  return string.match(claim, '^([%x-]+):%d+/%x+$')
end

-- The owner of `claim`; the claim itself if it is no claim of ours.
local function owner_of(claim)
  return string.match(claim, '^(.*)/') or claim
end
