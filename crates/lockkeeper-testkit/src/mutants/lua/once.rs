//! Mutants of the scripts of work that is done once.

use lockkeeper_lua::once;

use super::{Mutant, Where, mutant};

/// Mutants of the scripts of work that is done once, which the simulation must find too.
pub const ONCE: &[Mutant] = &[
    mutant(
        "once_acquire_does_not_look_at_the_record",
        &once::ACQUIRE,
        "  if record then\n    return { ARGV[1], 'STORED', unpack(record) }\n  end\n",
        "",
        Where::Small,
    ),
    mutant(
        "once_store_does_not_look_at_the_claim",
        &once::STORE,
        "local holds = claim == ARGV[2] and",
        "local holds = claim and",
        Where::Small,
    ),
    mutant(
        "once_store_needs_no_claim",
        &once::STORE,
        "if holds then\n",
        "claim = claim or ARGV[2]\nif holds or not value then\n  token = ARGV[3]\n",
        Where::Small,
    ),
    mutant(
        "once_store_leaves_the_claim",
        &once::STORE,
        "  local _, _, told = leave_alone(KEYS[1], value, claim, '0', ARGV[4])\n",
        "  local told = '1'\n",
        Where::Small,
    ),
    mutant(
        "once_store_tells_nobody",
        &once::STORE,
        "polled and wake(channel, 'free') or '1'",
        "'1'",
        Where::Small,
    ),
    mutant(
        "once_store_makes_no_tombstone",
        &once::STORE,
        "  redis.call('SET', KEYS[2], '1', 'PX', ARGV[5])\n",
        "",
        Where::Small,
    ),
    mutant(
        "once_store_repeated_is_told_that_its_claim_is_gone",
        &once::STORE,
        "if record and record[3] == ARGV[2] then\n  return { ARGV[1], 'RELEASED', '1', 0 }\nend\n",
        "",
        Where::Small,
    ),
    mutant(
        "once_store_of_a_claim_that_is_gone_is_told_that_it_is_kept",
        &once::STORE,
        "end\nreturn { ARGV[1], 'GONE' }\n",
        "end\nreturn { ARGV[1], 'RELEASED', '1', 0 }\n",
        Where::Small,
    ),
];
