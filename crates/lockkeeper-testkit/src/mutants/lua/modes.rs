//! Mutants of the scripts of the read-write lock.

use lockkeeper_lua::rwlock;

use super::{Mutant, Where, mutant};

/// Mutants of the scripts of the read-write lock, which the simulation must find too.
pub const RWLOCK: &[Mutant] = &[
    mutant(
        "rwlock_conversion_ignores_the_tombstone",
        &rwlock::CONVERT,
        " or redis.call('EXISTS', KEYS[3]) == 1",
        "",
        Where::Conversions,
    ),
    mutant(
        "rwlock_conversion_needs_no_old_claim",
        &rwlock::CONVERT,
        "(old_ends <= name.now or redis.call('EXISTS', KEYS[3]) == 1)",
        "redis.call('EXISTS', KEYS[3]) == 1",
        Where::Conversions,
    ),
    mutant(
        "rwlock_conversion_keeps_the_old_claim",
        &rwlock::CONVERT,
        "  stop_reading(name, old, 0)\n",
        "  if name.read_until < 0 then\n    stop_reading(name, old, 0)\n  end\n",
        Where::Conversions,
    ),
    mutant(
        "rwlock_conversion_sets_no_tombstone",
        &rwlock::CONVERT,
        "  redis.call('SET', KEYS[7], '1', 'PX', ARGV[9])\n",
        "",
        Where::Conversions,
    ),
    mutant(
        "rwlock_upgrade_passes_other_readers",
        &rwlock::CONVERT,
        "(name.held.taken or #all_readers(name) > 1)",
        "name.held.taken",
        Where::Conversions,
    ),
    mutant(
        "rwlock_downgrade_lets_the_writer_behind_in",
        &rwlock::CONVERT,
        "if mode ~= 'read' and not name.reading then",
        "if mode ~= 'read' then",
        Where::Conversions,
    ),
    mutant(
        "rwlock_downgrade_keeps_the_token",
        &rwlock::CONVERT,
        "name.read_token = draw_token(name.fence, name.floor, ttls[1], name.now_us)",
        "name.read_token = redis.call('GET', name.fence)",
        Where::Conversions,
    ),
    mutant(
        "rwlock_acquire_ignores_the_tombstone",
        &rwlock::ACQUIRE,
        " or redis.call('EXISTS', KEYS[3]) == 1",
        "",
        Where::Conversions,
    ),
    mutant(
        "rwlock_first_reader_takes_the_token_of_the_writer",
        &rwlock::ACQUIRE,
        "name.read_token = draw_token(name.fence, name.floor, ttls[1], name.now_us)",
        "name.read_token = redis.call('GET', name.fence) or draw_token(name.fence, name.floor, ttls[1], name.now_us)",
        Where::Conversions,
    ),
    mutant(
        "rwlock_readers_pass_a_waiting_writer",
        &rwlock::ACQUIRE,
        "if name.more or name.held.taken or name.waits then",
        "if name.more or name.held.taken or name.waits and mode == 'write' then",
        Where::Queue,
    ),
    mutant(
        "rwlock_readers_in_front_are_let_in_past_a_writer",
        &rwlock::HEARTBEAT,
        "    if mode ~= 'read' or not is_alive(name, entries[i]) then\n      break\n    end\n    front[i], requests[i], ttls[i] = claims[i], request, first_hold(name, ends)\n",
        "    if mode == 'read' and is_alive(name, entries[i]) then\n      front[#front + 1], requests[#requests + 1] = claims[i], request\n      ttls[#ttls + 1] = first_hold(name, ends)\n    end\n",
        Where::FourClients,
    ),
    mutant(
        "rwlock_renew_read_arms_all_readers",
        &rwlock::RENEW_READ,
        "    arm(KEYS[i], ttl)\n",
        "    for _, other in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], string.format('(%.0f', now), '+inf')) do\n      redis.call('ZADD', KEYS[i], string.format('%.0f', now + ttl), other)\n    end\n    arm(KEYS[i], ttl)\n",
        Where::Conversions,
    ),
    mutant(
        "rwlock_release_of_a_reader_takes_all_out",
        &rwlock::RELEASE,
        "  redis.call('ZREM', name.readers, claim, string.format('token:%s', claim))\n",
        "  redis.call('DEL', name.readers)\n",
        Where::Conversions,
    ),
    mutant(
        "rwlock_release_of_a_writer_forgets_the_readers_behind",
        &rwlock::RELEASE,
        "  share(name, claims, ttls)\n",
        "  share(name, { claims[1] }, ttls)\n",
        Where::Queue,
    ),
];

/// Those that the search alone must find.
pub(super) const SEARCHED: &[Mutant] = &[
    mutant(
        "rwlock_renew_read_revives_the_dead",
        &rwlock::RENEW_READ,
        "  if lease <= now then\n",
        "  if lease <= 0 then\n",
        Where::Conversions,
    ),
    mutant(
        "rwlock_readers_share_the_lease_of_the_last",
        &rwlock::ACQUIRE,
        "  arm(name.readers, longest)\n",
        "  redis.call('PEXPIRE', name.readers, string.format('%.0f', longest))\n",
        Where::UnequalLeases,
    ),
    mutant(
        "rwlock_each_reader_draws_a_token",
        &rwlock::ACQUIRE,
        "  if not name.read_token then\n",
        "  if name.read_until then\n",
        Where::Conversions,
    ),
    mutant(
        "rwlock_conversion_advances_nothing",
        &rwlock::CONVERT,
        "\nadvance(name)\n",
        "\n",
        Where::Conversions,
    ),
    mutant(
        "rwlock_upgrade_keeps_the_token",
        &rwlock::CONVERT,
        "local token = draw_token(name.fence, name.floor, ttl, name.now_us)\n",
        "local token = redis.call('GET', name.fence)\n",
        Where::Conversions,
    ),
];
