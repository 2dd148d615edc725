//! Mutants of the scripts of several names.

use lockkeeper_lua::multi;

use super::{Mutant, Where, mutant};

/// Mutants of the scripts of several names. Setting only one tombstone in a release is not a mistake: any one of them refuses
/// an acquire of all.
pub const MULTI: &[Mutant] = &[
    mutant(
        "multi_acquire_takes_all_though_one_is_refused",
        &multi::ACQUIRE,
        "if not refused then\n",
        "if true then\n",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_takes_the_first_name_only",
        &multi::ACQUIRE,
        "      redis.call('SET', main, value, 'PX', ttl)\n",
        "      if i == 1 then redis.call('SET', main, value, 'PX', ttl) end\n",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_minds_the_last_item_only",
        &multi::ACQUIRE,
        "token or false, true, refused or outcome",
        "token or false, true, outcome",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_minds_the_first_item_only",
        &multi::ACQUIRE,
        "token or false, true, refused or outcome",
        "token or false, true, i == 1 and outcome or refused",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_answers_one_item_by_another",
        &multi::ACQUIRE,
        "= outcome or 'FREE',",
        "= outcome or refused or 'FREE',",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_ignores_the_tombstone",
        &multi::ACQUIRE,
        "return redis.call('EXISTS', tombstone) == 1 and 'GONE' or nil",
        "return nil",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_looks_for_no_tombstone_where_names_are_free",
        &multi::ACQUIRE,
        "counters[i] = KEYS[3 * i - 2], KEYS[3 * i], KEYS",
        "counters[i] = KEYS[3 * i - 2], KEYS[3 * i - 2], KEYS",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_takes_a_held_name",
        &multi::ACQUIRE,
        "  return { 'BUSY', redis.call('PTTL', main) }\nend\n",
        "end\n",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_takes_an_inflated_name",
        &multi::ACQUIRE,
        "  elseif not found then\n    return 'INFLATED'\n",
        "  elseif not found then\n    return nil\n",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_repeated_does_not_arm",
        &multi::ACQUIRE,
        "      arm(main, tonumber(ttl))\n",
        "",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_repeated_draws_again",
        &multi::ACQUIRE,
        "and 'REVOKED' or nil, token\n",
        "and 'REVOKED' or nil\n",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_keeps_no_token",
        &multi::ACQUIRE,
        "    keep_token(counter, string.format('%.0f', token), now)\n",
        "",
        Where::Sets,
    ),
    mutant(
        "multi_release_sets_no_tombstone",
        &multi::RELEASE,
        "      redis.call('SET', KEYS[2 * i], '1', 'PX', ARGV[4 * i + 1])\n",
        "",
        Where::Sets,
    ),
    mutant(
        "multi_release_takes_an_inflated_name_for_one_that_is_gone",
        &multi::RELEASE,
        "    reply[i + 2] = 'INFLATED'\n",
        "    reply[i + 2] = { 'NOT_HELD', 0 }\n",
        Where::Sets,
    ),
    mutant(
        "multi_release_stops_at_the_first_that_was_gone",
        &multi::RELEASE,
        "      reply[i + 2] = { 'NOT_HELD', 0 }\n",
        "      reply[i + 2] = { 'NOT_HELD', 0 }\n      break\n",
        Where::Sets,
    ),
    mutant(
        "multi_release_does_not_compare",
        &multi::RELEASE,
        "if whose ~= claim then",
        "if not whose then",
        Where::Sets,
    ),
    mutant(
        "multi_release_wakes_the_waiters_of_the_first_only",
        &multi::RELEASE,
        "ARGV[4 * i], ARGV[4 * i - 1])",
        "ARGV[4 * i], ARGV[3])",
        Where::Sets,
    ),
    mutant(
        "multi_release_wakes_nobody",
        &multi::RELEASE,
        "return true, 0, polled and wake(channel, 'free') or '1'",
        "return true, 0, '1'",
        Where::Sets,
    ),
];
