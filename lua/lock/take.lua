-- lock/take: acquires a free name for a claim that asks for the first time. If anything stands under the name, or the claim was released before,
-- it changes nothing. The usual case is in shared/take, which comes first and leaves `before` and `now`.
--
-- KEYS[1] main       written: the value of one claim, see shared/value
-- KEYS[2] counter    the last token drawn by any name of the slot
-- KEYS[3] tombstone  left by a release that overtook this claim's take
-- ARGV[1] request    echoed
-- ARGV[2] value      the value up to its token: `<kind> <share> <claim> `
-- ARGV[3] ttl        of the lease, ms
-- ARGV[4] floor      the largest token the caller has seen
-- ARGV[5] tries      1 if the claim does not wait
-- REPLY GRANTED token
-- REPLY BUSY left    to a claim that does not wait: a claim of the kind, but of another owner, holds alone and takes all of the name; ms until its
--                    lease ends, negative: never
-- REPLY INFLATED     something else, or a tombstone, stands there: run lock/acquire
-- PUBLISH nothing

local token = draw_after(before, KEYS[2], ARGV[4], now)
write_value(KEYS[1], false, ARGV[2] .. token, ARGV[3])
return ARGV[1] .. ' GRANTED ' .. token
