//! Mutants of what the scripts do with a queue.

use lockkeeper_lua::{lock, name};

use super::{Incident, Mutant, Where, mutant};

/// Mutants of the scripts that show in the fair lock; the simulation must find them too.
pub const FAIR: &[Mutant] = &[
    mutant(
        "fair_release_gives_no_turn",
        &lock::RELEASE,
        "  told = advance(name)\n",
        "",
        Where::Queue,
    ),
    mutant(
        "fair_release_keeps_the_place",
        &lock::RELEASE,
        "name.waits and withdraw(name, member_of('', share, claim)) > 0",
        "false",
        Where::Queue,
    ),
    mutant(
        "fair_release_tells_nobody",
        &lock::RELEASE,
        "return client and wake(name.channel .. ':' .. client, message) or '0'",
        "return client and message and '1'",
        Where::Queue,
    ),
    mutant(
        "fair_heartbeat_creates",
        &lock::HEARTBEAT,
        "  return 'GONE'\nend\n",
        "  redis.call('ZADD', name.queue, '9', member)\n  hear(name, claim, request)\n  return { 'WAITING', 1 }\nend\n",
        Where::Queue,
    ),
    mutant(
        "fair_heartbeat_gives_no_turn",
        &lock::HEARTBEAT,
        "    advance(name)\n",
        "",
        Where::Queue,
    ),
    mutant(
        "fair_acquire_passes_the_queue",
        &lock::ACQUIRE,
        "\nif select(2, advance(name)) then",
        "\nname.waits = false\nif false then",
        Where::Queue,
    ),
    mutant(
        "fair_acquire_repeated_loses_its_place",
        &lock::ACQUIRE,
        "  local left, place, alive_until = first_end(name), place_of(name, member)\n",
        "  redis.call('ZREM', name.queue, member)\n  local left, place, alive_until = first_end(name), place_of(name, member)\n",
        Where::Queue,
    ),
    mutant(
        "fair_acquire_joins_in_front",
        &lock::ACQUIRE,
        "tonumber(last[2] or 0) + 1",
        "tonumber(last[2] or 0) - 1",
        Where::Queue,
    ),
    mutant(
        "fair_acquire_ignores_the_tombstone",
        &lock::ACQUIRE,
        "has_left or ",
        "",
        Where::Queue,
    ),
    mutant(
        "fair_full_queue_forgets_whom_the_run_let_in",
        &lock::ACQUIRE,
        "  if limit > 0 and length >= limit then\n    settle(name)\n",
        "  if limit > 0 and length >= limit then\n",
        Where::FourClients,
    ),
];

/// Those that only the search must find.
pub(super) const SEARCHED: &[Mutant] = &[
    mutant(
        "fair_inflation_forgets_that_the_first_claim_is_revoked",
        &lock::ACQUIRE,
        "alone.ends, member_of(alone.flag, alone.share",
        "alone.ends, member_of('', alone.share",
        Where::Revoked,
    ),
    mutant(
        "fair_force_leaves_the_claims",
        &name::FREE,
        "  redis.call('DEL', name.holders)\n",
        "",
        Where::Forced,
    ),
    mutant(
        "fair_inflation_keeps_what_a_lost_marker_left",
        &lock::ACQUIRE,
        "  redis.call('UNLINK', name.holders, name.queue, name.state)\n",
        "",
        Where::MainKeyLost,
    ),
    mutant(
        "fair_marker_over_nobody_counts_its_holders",
        &lock::ACQUIRE,
        "  if #first > 0 then\n",
        "  do\n",
        Where::LostBehind(Incident::HoldersLost),
    ),
    mutant(
        "fair_grant_keeps_holders_that_nobody_counts",
        &lock::HEARTBEAT,
        "    redis.call('DEL', name.holders)\n    name.emptied",
        "    name.emptied",
        Where::HoldersBack,
    ),
    mutant(
        "fair_renewal_takes_a_thin_value_for_the_end",
        &lock::RENEW_INFLATED,
        "  if alone == claim and not string.find(flags, '[rc]') then\n",
        "  if false then\n",
        Where::LostBehind(Incident::InflationLost),
    ),
    mutant(
        "fair_acquire_shortens_a_grant",
        &lock::ACQUIRE,
        "put(name, math.max(ends, name.now + ttl)",
        "put(name, name.now + ttl",
        Where::Queue,
    ),
    mutant(
        "fair_heartbeat_does_not_count_whom_it_grants",
        &lock::HEARTBEAT,
        "name.exclusive + 1, name.live + 1, owner_of(claim)",
        "name.exclusive, name.live, owner_of(claim)",
        Where::Queue,
    ),
    mutant(
        "fair_heartbeat_is_not_noted",
        &lock::HEARTBEAT,
        "  hear(name, claim, request, alive_until)\n",
        "",
        Where::Queue,
    ),
    mutant(
        "fair_heartbeat_shortens_a_grant",
        &lock::HEARTBEAT,
        "put(name, math.max(ends, name.now + ttl)",
        "put(name, name.now + ttl",
        Where::Queue,
    ),
    mutant(
        "fair_release_grants_for_too_long",
        &lock::RELEASE,
        "claim, ends - name.now)",
        "claim, math.max(ends - name.now, name.waiter_ttl))",
        Where::Queue,
    ),
    mutant(
        "fair_release_grants_for_too_short",
        &lock::RELEASE,
        "claim, ends - name.now)",
        "claim, math.ceil((ends - name.now) / 2))",
        Where::Queue,
    ),
    mutant(
        "fair_full_queue_counts_the_dead",
        &lock::ACQUIRE,
        "    length = thin_out(name, length)\n",
        "",
        Where::FullQueue,
    ),
    mutant(
        "fair_full_queue_drops_the_living",
        &lock::ACQUIRE,
        "    if not is_alive(name, entry) then\n      dead",
        "    if i > 1 then\n      dead",
        Where::FullQueue,
    ),
];
