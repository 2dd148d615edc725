//! Mutants of the scripts of several names.

use lockkeeper_lua::multi;

use super::{Mutant, Where, mutant};

/// Mutants of the scripts of several names. That only one of the items of a release sets its tombstone is none: an acquire of all
/// of them is refused by any.
pub const MULTI: &[Mutant] = &[
    mutant(
        "multi_acquire_takes_what_is_free_though_one_is_refused",
        &multi::ACQUIRE,
        "  elseif not refused then\n",
        "  elseif reply[i + 2] == 'FREE' then\n",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_minds_the_last_item_only",
        &multi::ACQUIRE,
        "refused = name, true, refused or outcome",
        "refused = name, true, outcome",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_minds_the_first_item_only",
        &multi::ACQUIRE,
        "refused = name, true, refused or outcome",
        "refused = name, true, i == 1 and outcome or refused",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_answers_one_item_by_another",
        &multi::ACQUIRE,
        "reply[i + 2] = outcome or 'FREE'",
        "reply[i + 2] = outcome or refused or 'FREE'",
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
        "multi_acquire_repeated_does_not_arm",
        &multi::ACQUIRE,
        "    go_on(name, 'x', claim, name.ends, ttl)\n",
        "",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_repeated_draws_again",
        &multi::ACQUIRE,
        "    reply[i + 2] = { 'GRANTED', name.token_of_claim }\n",
        "    reply[i + 2] = { 'GRANTED', draw_token(name.counter, name.floor, name.now_us) }\n",
        Where::Sets,
    ),
    mutant(
        "multi_acquire_lets_every_owner_in",
        &multi::ACQUIRE,
        "return name.reenters and name.owner == owner and",
        "return name.reenters and name.owner and",
        Where::Sets,
    ),
    mutant(
        "multi_release_sets_no_tombstone",
        &multi::RELEASE,
        "    redis.call('SET', KEYS[5 * i - 3], '1', 'PX', ARGV[6 * i - 1])\n",
        "",
        Where::Sets,
    ),
    mutant(
        "multi_release_stops_at_the_first_that_was_gone",
        &multi::RELEASE,
        "    reply[i + 2] = { 'NOT_HELD', holds }\n",
        "    reply[i + 2] = { 'NOT_HELD', holds }\n    break\n",
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
        "claim, cooldown, name.channel)",
        "claim, cooldown, ARGV[3])",
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
