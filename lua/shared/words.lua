-- shared/words: the commands for messages on the channels of a name.
local SEND, LISTEN = 'PUBLISH', 'SUBSCRIBE'
