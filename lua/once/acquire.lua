-- once/acquire: returns the outcome of the work of a name, if the work is done or has failed. Otherwise the claim should do it: lock/acquire,
-- which follows in this script, grants the name to the claim or answers that another one holds. A repeat by a holder extends its lease.
--
-- KEYS[1] main          the value of one claim, or a marker, see shared/value
-- KEYS[2] counter       the last token drawn by any name of the slot
-- KEYS[3] tombstone     left by a release that overtook this claim's acquire
-- KEYS[4] holders       ZSET: <flag><share>:<claim> -> when its lease ends, server ms
-- KEYS[5] queue         ZSET: <share>:<claim> -> its ticket
-- KEYS[6] state         HASH: further data of holders and waiters, see shared/standing and shared/queue
-- KEYS[7] record        HASH: the outcome of the work, see shared/record
-- ARGV[1] request       echoed
-- ARGV[2] claim
-- ARGV[3] ttl           of the lease, ms
-- ARGV[4] floor         the largest token the caller has seen
-- ARGV[5] token         of the grant that this request repeats; such a repeat creates nothing; 0: no grant yet
-- ARGV[6] kind
-- ARGV[7] share         x: all of the name
-- ARGV[8] polled        1 if other claims of the client poll the name
-- ARGV[9] waiter_ttl    as in lock/acquire
-- ARGV[10] channel      on which pollers listen
-- ARGV[11] queue_limit  0: the claim does not wait; poll: it asks again after a message
-- ARGV[12] reenters     1 if an owner that holds may acquire again
-- REPLY STORED form value claim token at fingerprint left  the work is done or has failed, see shared/record; `left`: how long that is stored, ms
-- REPLY GRANTED token limit    the claim must do the work
-- REPLY WAITING left position limit  as in lock/acquire
-- REPLY BUSY left foreign      another claim does the work, or holds the name for another purpose; left and foreign as in lock/acquire
-- REPLY QUEUE_FULL length      as in lock/acquire
-- REPLY WOULD_DEADLOCK         as in lock/acquire
-- REPLY OVER_LIMIT limit       as in lock/acquire
-- REPLY MORE                   one run does not finish the work: run it again at once
-- REPLY REVOKED                the claim holds but is revoked; its lease is not extended
-- REPLY GONE                   this claim was released and must not hold again, or does not hold with that token
-- REPLY WRONG_KIND             the name holds data of another kind, or one of its keys has another type
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter that is granted, as in lock/acquire; none for a kind without a queue

if ARGV[5] == '0' then
  local record, fault = read_record(KEYS[7], true)
  if fault then
    return fault
  end
  if record then
    return { ARGV[1], 'STORED', unpack(record) }
  end
  if record == nil then
    return { ARGV[1], 'WRONG_KIND' }
  end
end
