//! Mutants of the scripts of several names.

use lockkeeper_lua::multi;

use super::mutant::{Mutant, Where};

/// Mutants of the scripts of several names. Setting only one tombstone in a release is not a mistake: any one of them refuses
/// an acquire of all.
pub const MULTI: &[Mutant] = mutants! {
    multi_acquire_takes_all_though_one_is_refused: multi::ACQUIRE, Where::Sets;
        "if not refused then\n" => "if true then\n";
    multi_acquire_takes_the_first_name_only: multi::ACQUIRE, Where::Sets;
        "      write_value(main, false, value, ttl)\n" => "      if i == 1 then write_value(main, false, value, ttl) end\n";
    multi_acquire_minds_the_last_item_only: multi::ACQUIRE, Where::Sets;
        "token or false, true, refused or outcome" => "token or false, true, outcome";
    multi_acquire_minds_the_first_item_only: multi::ACQUIRE, Where::Sets;
        "token or false, true, refused or outcome" => "token or false, true, i == 1 and outcome or refused";
    multi_acquire_answers_one_item_by_another: multi::ACQUIRE, Where::Sets;
        "= outcome or 'FREE'," => "= outcome or refused or 'FREE',";
    multi_acquire_ignores_the_tombstone: multi::ACQUIRE, Where::Sets;
        "return redis.call('EXISTS', tombstone) == 1 and 'GONE' or nil" => "return nil";
    multi_acquire_looks_for_no_tombstone_where_names_are_free: multi::ACQUIRE, Where::Sets;
        "counters[i] = KEYS[3 * i - 2], KEYS[3 * i], KEYS" => "counters[i] = KEYS[3 * i - 2], KEYS[3 * i - 2], KEYS";
    multi_acquire_takes_a_held_name: multi::ACQUIRE, Where::Sets;
        "  return { 'BUSY', redis.call('PTTL', main) }\nend\n" => "end\n";
    multi_acquire_takes_an_inflated_name: multi::ACQUIRE, Where::Sets;
        "  elseif not found then\n    return 'INFLATED'\n" => "  elseif not found then\n    return nil\n";
    multi_acquire_repeated_does_not_arm: multi::ACQUIRE, Where::Sets;
        "      arm(main, tonumber(ttl))\n" => "";
    multi_acquire_repeated_draws_again: multi::ACQUIRE, Where::Sets;
        "and 'REVOKED' or nil, token\n" => "and 'REVOKED' or nil\n";
    multi_acquire_keeps_no_token: multi::ACQUIRE, Where::Sets;
        "    keep_token(counter, string.format('%.0f', token), now)\n" => "";
    multi_release_sets_no_tombstone: multi::RELEASE, Where::Sets;
        "      redis.call('SET', KEYS[2 * i], '1', 'PX', ARGV[4 * i + 1])\n" => "";
    multi_release_takes_an_inflated_name_for_one_that_is_gone: multi::RELEASE, Where::Sets;
        "    reply[i + 2] = 'INFLATED'\n" => "    reply[i + 2] = { 'NOT_HELD', 0 }\n";
    multi_release_stops_at_the_first_that_was_gone: multi::RELEASE, Where::Sets;
        "      reply[i + 2] = { 'NOT_HELD', 0 }\n" => "      reply[i + 2] = { 'NOT_HELD', 0 }\n      break\n";
    multi_release_does_not_compare: multi::RELEASE, Where::Sets;
        "if whose ~= claim then" => "if not whose then";
    multi_release_wakes_the_waiters_of_the_first_only: multi::RELEASE, Where::Sets;
        "ARGV[4 * i], ARGV[4 * i - 1])" => "ARGV[4 * i], ARGV[3])";
    multi_release_wakes_nobody: multi::RELEASE, Where::Sets;
        "return true, 0, polled and wake(channel, 'free') or '1'" => "return true, 0, '1'";
};
