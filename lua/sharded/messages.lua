-- shared/messages: the commands that send and receive messages of a name.
local SEND, HEAR = 'SPUBLISH', 'SSUBSCRIBE'
