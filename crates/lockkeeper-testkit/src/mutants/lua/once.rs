//! Mutants of the scripts of work that is done once.

use lockkeeper_lua::once;

use super::mutant::{Mutant, Where};

/// Mutants of the scripts of work that is done once, which the simulation must find too.
pub const ONCE: &[Mutant] = mutants! {
    once_acquire_does_not_look_at_the_record: once::ACQUIRE, Where::Small;
        "  if record then\n    return { ARGV[1], 'STORED', unpack(record) }\n  end\n" => "";
    once_store_does_not_look_at_the_claim: once::STORE, Where::Small;
        "local holds = claim == ARGV[2] and" => "local holds = claim and";
    once_store_needs_no_claim: once::STORE, Where::Small;
        "if holds then\n" => "claim = claim or ARGV[2]\nif holds or not value then\n  token = ARGV[3]\n";
    once_store_leaves_the_claim: once::STORE, Where::Small;
        "  local _, _, told = leave_alone(KEYS[1], value, claim, '0', ARGV[4])\n" => "  local told = '1'\n";
    once_store_tells_nobody: once::STORE, Where::Small;
        "polled and wake(channel, 'free') or '1'" => "'1'";
    once_store_makes_no_tombstone: once::STORE, Where::Small;
        "  redis.call('SET', KEYS[2], '1', 'PX', ARGV[5])\n" => "";
    once_store_repeated_is_told_that_its_claim_is_gone: once::STORE, Where::Small;
        "if record and record[3] == ARGV[2] then\n  return { ARGV[1], 'RELEASED', '1', 0 }\nend\n" => "";
    once_store_of_a_claim_that_is_gone_is_told_that_it_is_kept: once::STORE, Where::Small;
        "end\nreturn { ARGV[1], 'GONE' }\n" => "end\nreturn { ARGV[1], 'RELEASED', '1', 0 }\n";
};
