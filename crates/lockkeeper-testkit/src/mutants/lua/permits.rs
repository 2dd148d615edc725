//! Mutants of the scripts of the semaphore.

use lockkeeper_lua::lock;

use super::mutant::{Mutant, Where};

/// Mutants of the scripts of the semaphore, which the simulation must find too.
pub const SEMAPHORE: &[Mutant] = mutants! {
    semaphore_acquire_repeated_counts_its_permits_twice: lock::ACQUIRE, Where::Queue;
        "    go_on(name, share, claim, ends, ttl)\n    return token_of(name, share, claim)\n" => "    go_on(name, share, claim, ends, ttl)\n    name.parts, name.changed = name.parts + (weight_of(share) or 0), name.inflated\n    return token_of(name, share, claim)\n";
    semaphore_acquire_takes_out_all_permits_with_one_that_has_expired: lock::ACQUIRE, Where::Queue;
        "name.parts = math.max(name.parts - weight_of(share), 0)" => "name.parts = 0";
    semaphore_acquire_takes_out_one_permit_of_each_that_has_expired: lock::ACQUIRE, Where::Queue;
        "name.parts = math.max(name.parts - weight_of(share), 0)" => "name.parts = math.max(name.parts - 1, 0)";
    semaphore_acquire_of_one_permit_passes_the_queue: lock::ACQUIRE, Where::Queue;
        "(name.waits or name.more or" => "(name.waits and weight_of(share) > 1 or name.more or";
    semaphore_heartbeat_lets_in_a_small_one_past_a_large_one_in_front: lock::HEARTBEAT, Where::Queue;
        "    if not is_over and not fits(name, share) and not lets_in(name, claim) then\n      break\n    end\n" => "    if not is_over and not fits(name, share) and not lets_in(name, claim) then\n      member = redis.call('ZRANGE', name.queue, 1, 1)[1]\n      if not member or not fits(name, select(2, parts_of(member))) then\n        break\n      end\n      _, share, claim = parts_of(member)\n    end\n";
    semaphore_release_gives_back_one_permit_less: lock::RELEASE, Where::Queue;
        "name.parts = math.max(name.parts - weight_of(share), 0)" => "name.parts = math.max(name.parts - math.max(weight_of(share) - 1, 1), 0)";
    semaphore_acquire_takes_its_own_limit_for_that_which_stands: lock::ACQUIRE, Where::Limits;
        "(name.limit or limit_of(share) or math.huge)" => "(limit_of(share) or name.limit or math.huge)";
};

/// Mutants that only the search must find: in histories the next heartbeat repairs what was left undone, and nothing there
/// relies on a lowered limit.
pub(super) const SEARCHED: &[Mutant] = mutants! {
    semaphore_acquire_takes_nothing_beside_a_revoked_claim_alone: lock::ACQUIRE, Where::Revoked;
        "flag == 'r' and (share == 'x' or name.reenters)" => "flag == 'r'";
    semaphore_limit_raised_lets_nobody_in: lock::LIMIT, Where::Limits;
        "\nadvance(name)\nlocal waiting" => "\nlocal waiting";
    semaphore_limit_lowered_leaves_one_that_is_over_it_in_front: lock::LIMIT, Where::Limits;
        "    local is_over = is_over_limit(name, share)\n" => "    local is_over = false\n";
    semaphore_limit_set_is_not_written_down: lock::LIMIT, Where::Limits;
        "  name.limit, name.changed = tonumber(ARGV[2]), true\n" => "  name.limit = tonumber(ARGV[2])\n";
};
