//! Mutants of what the scripts do with a queue.

use lockkeeper_lua::{lock, name};

use super::mutant::{Mutant, Where};
use crate::search::Incident;

/// Mutants of the scripts that show in the fair lock; the simulation must find them too.
pub const FAIR: &[Mutant] = mutants! {
    fair_release_gives_no_turn: lock::RELEASE, Where::Queue;
        "  told = advance(name)\n" => "";
    fair_release_keeps_the_place: lock::RELEASE, Where::Queue;
        "name.waits and withdraw(name, member_of('', share, claim)) > 0" => "false";
    fair_release_tells_nobody: lock::RELEASE, Where::Queue;
        "return client and wake(name.channel .. ':' .. client, message) or '0'" => "return client and message and '1'";
    fair_heartbeat_creates: lock::HEARTBEAT, Where::Queue;
        "  return 'GONE'\nend\n" => "  redis.call('ZADD', name.queue, '9', member)\n  hear(name, claim, request)\n  return { 'WAITING', 1 }\nend\n";
    fair_heartbeat_gives_no_turn: lock::HEARTBEAT, Where::Queue;
        "    advance(name)\n" => "";
    fair_acquire_passes_the_queue: lock::ACQUIRE, Where::Queue;
        "\nif select(2, advance(name)) then" => "\nname.waits = false\nif false then";
    fair_acquire_repeated_loses_its_place: lock::ACQUIRE, Where::Queue;
        "  local left, place, alive_until = first_end(name), place_of(name, member)\n" => "  redis.call('ZREM', name.queue, member)\n  local left, place, alive_until = first_end(name), place_of(name, member)\n";
    fair_acquire_joins_in_front: lock::ACQUIRE, Where::Queue;
        "tonumber(last[2] or 0) + 1" => "tonumber(last[2] or 0) - 1";
    fair_acquire_ignores_the_tombstone: lock::ACQUIRE, Where::Queue;
        "redis.call('EXISTS', KEYS[3]) == 1 or " => "";
    fair_full_queue_forgets_whom_the_run_let_in: lock::ACQUIRE, Where::FourClients;
        "  if limit > 0 and length >= limit then\n    settle(name)\n" => "  if limit > 0 and length >= limit then\n";
};

/// Those that only the search must find.
pub(super) const SEARCHED: &[Mutant] = mutants! {
    fair_inflation_forgets_that_the_first_claim_is_revoked: lock::ACQUIRE, Where::Revoked;
        "alone.ends, member_of(alone.flag, alone.share" => "alone.ends, member_of('', alone.share";
    fair_force_leaves_the_claims: name::FREE, Where::Forced;
        "  redis.call('DEL', name.holders)\n" => "";
    fair_inflation_keeps_what_a_lost_marker_left: lock::ACQUIRE, Where::MainKeyLost;
        "  redis.call('UNLINK', name.holders, name.queue, name.state)\n" => "";
    fair_marker_over_nobody_counts_its_holders: lock::ACQUIRE, Where::LostBehind(Incident::HoldersLost);
        "  if #first > 0 then\n" => "  do\n";
    fair_grant_keeps_holders_that_nobody_counts: lock::HEARTBEAT, Where::HoldersBack;
        "    redis.call('DEL', name.holders)\n    name.emptied" => "    name.emptied";
    fair_renewal_takes_a_thin_value_for_the_end: lock::RENEW_INFLATED, Where::LostBehind(Incident::InflationLost);
        "  if alone == claim and not string.find(flags, '[rc]') then\n" => "  if false then\n";
    fair_acquire_shortens_a_grant: lock::ACQUIRE, Where::Queue;
        "put(name, math.max(ends, name.now + ttl)" => "put(name, name.now + ttl";
    fair_heartbeat_does_not_count_whom_it_grants: lock::HEARTBEAT, Where::Queue;
        "name.exclusive + 1, name.live + 1, owner_of(claim)" => "name.exclusive, name.live, owner_of(claim)";
    fair_heartbeat_is_not_noted: lock::HEARTBEAT, Where::Queue;
        "  hear(name, claim, request, alive_until)\n" => "";
    fair_heartbeat_shortens_a_grant: lock::HEARTBEAT, Where::Queue;
        "put(name, math.max(ends, name.now + ttl)" => "put(name, name.now + ttl";
    fair_release_grants_for_too_long: lock::RELEASE, Where::Queue;
        "claim, ends - name.now)" => "claim, math.max(ends - name.now, name.waiter_ttl))";
    fair_release_grants_for_too_short: lock::RELEASE, Where::Queue;
        "claim, ends - name.now)" => "claim, math.ceil((ends - name.now) / 2))";
    fair_full_queue_counts_the_dead: lock::ACQUIRE, Where::FullQueue;
        "    length = thin_out(name, length)\n" => "";
    fair_full_queue_drops_the_living: lock::ACQUIRE, Where::FullQueue;
        "    if not is_alive(name, entry) then\n      dead" => "    if i > 1 then\n      dead";
};
