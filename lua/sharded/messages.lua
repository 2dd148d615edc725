-- shared/messages: by which commands messages of a name are sent and heard.
local SEND, HEAR = 'SPUBLISH', 'SSUBSCRIBE'
