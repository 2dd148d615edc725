//! Mutants of the scripts of a latch. A vector of the script covers one more mistake: that ids which were lost one by one
//! count as not yet counted.

use lockkeeper_lua::latch;

use super::mutant::{Mutant, Where};

/// Mutants of the scripts of a latch, which the search and the simulation must find.
pub const LATCH: &[Mutant] = mutants! {
    latch_count_takes_its_ttl_for_an_id: latch::COUNT_DOWN, Where::Latch;
        "redis.call('ZCARD', KEYS[2]) + 1" => "redis.call('ZCARD', KEYS[2])";
    latch_count_repeated_keeps_it_alive: latch::COUNT_DOWN, Where::Latch;
        "redis.call('ZADD', KEYS[2], '0', ARGV[2]) == 1" => "redis.call('ZADD', KEYS[2], '0', ARGV[2])";
    latch_count_tells_nobody: latch::COUNT_DOWN, Where::Latch;
        "    wake(ARGV[3], 'free')\n" => "";
    latch_count_leaves_the_ids: latch::COUNT_DOWN, Where::Latch;
        "    redis.call('DEL', KEYS[2])\n" => "";
    latch_count_does_not_keep_the_ids: latch::COUNT_DOWN, Where::Latch;
        "    keep_counted(KEYS[2], tonumber(latch.ttl))\n" => "";
    latch_arm_closes_what_is_open: latch::ARM, Where::Latch;
        "latch.state == 'armed' or latch.state == 'open'" => "latch.state == 'armed'";
    latch_arm_leaves_the_ids_of_another: latch::ARM, Where::Latch;
        "redis.call('DEL', KEYS[2])\n" => "";
    latch_arm_repeated_keeps_it_alive: latch::ARM, Where::Latch;
        "  return { ARGV[1], 'COUNTS', latch.left, latch.n, " => "  redis.call('PEXPIRE', KEYS[1], ARGV[4])\n  return { ARGV[1], 'COUNTS', latch.left, latch.n, ";
    latch_arm_makes_a_latch_without_an_end: latch::ARM, Where::Latch;
        "''), string.format('%.0f', ttl))" => "''))";
    latch_look_keeps_it_alive: latch::LOOK, Where::Latch;
        "if latch.state == 'armed' then\n" => "if latch.state == 'armed' then\n  redis.call('PEXPIRE', KEYS[1], latch.ttl)\n";
    latch_look_takes_what_has_ended_for_what_was_never_armed: latch::LOOK, Where::Latch;
        "(value or latch.ttl) and 'ended' or 'absent'" => "'absent'";
};

/// Mutants that only the search must find: no server loses just one of two keys in a history.
pub(super) const SEARCHED: &[Mutant] = mutants! {
    latch_look_waits_for_one_that_lost_its_ids: latch::LOOK, Where::Latch;
        "if value and (latch.left == 0 or latch.ttl) then" => "if value then";
};
