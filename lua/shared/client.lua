-- shared/client: reads the client and the owner from a claim.

-- The client of `claim`; nil if it is not a claim of this library.
local function client_of(claim)
  return string.match(claim, '^([%x-]+):%d+/%x+$')
end

-- The owner of `claim`; the claim itself if it is not a claim of this library.
local function owner_of(claim)
  return string.match(claim, '^([^/]*)/') or claim
end
