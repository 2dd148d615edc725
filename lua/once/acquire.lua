-- once/acquire: answers what has come of the work of a name, if it is done. Otherwise the claim is to do it: lock/acquire, which stands behind
-- this, lets it hold the name, or tells it that another one does. Run again by a holder it arms its lease.
--
-- KEYS[1] main          the value of one claim, or a marker, see shared/value
-- KEYS[2] counter       the last token drawn by any name of the slot
-- KEYS[3] tombstone     of a release that overtook this claim's acquire
-- KEYS[4] holders       ZSET: <flag><share>:<claim> -> server ms of the end of its lease
-- KEYS[5] queue         ZSET: <share>:<claim> -> its ticket
-- KEYS[6] state         HASH: what else is known of holders and waiters, see shared/standing and shared/queue
-- KEYS[7] record        HASH: what has come of the work, see shared/record
-- ARGV[1] request       echoed
-- ARGV[2] claim
-- ARGV[3] ttl           of the lease, ms
-- ARGV[4] floor         the largest token the caller has seen
-- ARGV[5] token         of the grant that is repeated, which then creates nothing; 0 if none has been granted
-- ARGV[6] kind
-- ARGV[7] share         x: all of the name
-- ARGV[8] polled        1 if others of the client poll the name
-- ARGV[9] waiter_ttl    as lock/acquire has it
-- ARGV[10] channel      where those who poll listen
-- ARGV[11] queue_limit  0: the claim does not wait; poll: it asks again when it is told
-- ARGV[12] reenters     1 if an owner that holds is let in again
-- REPLY STORED form value claim token at fingerprint left  the work is done or has failed, see shared/record; for how long that is known, ms
-- REPLY GRANTED token limit    the claim is to do the work
-- REPLY WAITING left position limit  as lock/acquire has it
-- REPLY BUSY left foreign      another claim does it, or holds the name for something else; left and foreign as lock/acquire has them
-- REPLY QUEUE_FULL length      as lock/acquire has it
-- REPLY WOULD_DEADLOCK         as lock/acquire has it
-- REPLY OVER_LIMIT limit       as lock/acquire has it
-- REPLY MORE                   the run has done as much as it may for others: to be run again at once
-- REPLY REVOKED                the claim holds, is revoked, and is not armed again
-- REPLY GONE                   this claim has left and must not come back, or it does not hold with that token
-- REPLY WRONG_KIND             the name holds another kind's data, or one of its keys another type
-- PUBLISH channel:<client>: G <claim> <token> <request>, to each waiter whose turn it is: as lock/acquire, of which kinds without a queue have none

if ARGV[5] == '0' then
  local record, fault = read_record(KEYS[7])
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
