//! Mutants of the scripts of the read-write lock.

use lockkeeper_lua::lock;

use super::mutant::{Mutant, Where};

/// Mutants of the scripts of the read-write lock, which the simulation must find too.
pub const RWLOCK: &[Mutant] = mutants! {
    rwlock_conversion_ignores_the_tombstone: lock::CONVERT, Where::Conversions;
        " or redis.call('EXISTS', KEYS[3]) == 1" => "";
    rwlock_conversion_needs_no_old_claim: lock::CONVERT, Where::Conversions;
        "(not holds or redis.call('EXISTS', KEYS[3]) == 1)" => "redis.call('EXISTS', KEYS[3]) == 1";
    rwlock_conversion_of_one_alone_ignores_the_tombstone: lock::CONVERT, Where::Conversions;
        "alone and redis.call('EXISTS', KEYS[3]) == 0 and redis.call" => "alone and redis.call";
    rwlock_conversion_of_one_alone_needs_no_old_claim: lock::CONVERT, Where::Conversions;
        "type(value) == 'string' and string.find(value, old, 1, true) == 1 and string.find(value, '^%d+$', #old + 1)" => "type(value) == 'string'";
    rwlock_conversion_of_one_alone_keeps_the_token: lock::CONVERT, Where::Conversions;
        "    local token = draw_again(KEYS[2], ARGV[4]) or draw_token(KEYS[2], ARGV[4], server_now())\n" => "    local token = string.sub(value, #old + 1)\n";
    rwlock_conversion_keeps_the_old_claim: lock::CONVERT, Where::Conversions;
        "  dismiss(name, old_share, old, 0)\n" => "";
    rwlock_conversion_sets_no_tombstone: lock::CONVERT, Where::Conversions;
        "  redis.call('SET', KEYS[7], '1', 'PX', ARGV[11])\n" => "";
    rwlock_upgrade_passes_other_readers: lock::CONVERT, Where::Conversions;
        "and share == 'x' and not is_alone and" => "and share == 'x' and name.exclusive > 0 and";
    rwlock_downgrade_lets_the_writer_behind_in: lock::CONVERT, Where::Conversions;
        "    return not is_taken(name)\n" => "    return name.exclusive == 0\n";
    rwlock_downgrade_keeps_the_token: lock::CONVERT, Where::Conversions;
        "local token = shared and name.token or draw_again(name.counter, name.floor) or draw_token(name.counter, name.floor, name.now_us)\n" => "local token = shared and name.token or redis.call('GET', name.counter)\n";
    rwlock_acquire_ignores_the_tombstone: lock::ACQUIRE, Where::Conversions;
        "redis.call('EXISTS', KEYS[3]) == 1 or " => "";
    rwlock_first_reader_takes_the_token_of_the_writer: lock::ACQUIRE, Where::Conversions;
        "local token = shared and name.token or draw_again(name.counter, name.floor) or draw_token(name.counter, name.floor, name.now_us)\n" => "local token = shared and name.token or redis.call('GET', name.counter)\n";
    rwlock_readers_pass_a_waiting_writer: lock::ACQUIRE, Where::Queue;
        "(name.waits or name.more or" => "(name.waits and share == 'x' or name.more or";
    rwlock_readers_in_front_are_let_in_past_a_writer: lock::HEARTBEAT, Where::FourClients;
        "    if not is_over and not fits(name, share) and not lets_in(name, claim) then\n      break\n    end\n" => "    if not is_over and not fits(name, share) and not lets_in(name, claim) then\n      member = redis.call('ZRANGE', name.queue, 1, 1)[1]\n      if not member or not fits(name, select(2, parts_of(member))) then\n        break\n      end\n      _, share, claim = parts_of(member)\n    end\n";
    rwlock_renew_read_arms_all_readers: lock::RENEW_INFLATED, Where::Conversions;
        "    -- The keys must outlive the lease even if no other script runs on this name. Waiters keep their queue by heartbeats.\n" => "    for _, other in ipairs(redis.call('ZRANGE', holders, 0, -1)) do\n      redis.call('ZADD', holders, text_of(now + ttl), other)\n    end\n";
    rwlock_release_of_a_reader_takes_all_out: lock::RELEASE, Where::Conversions;
        "  redis.call('ZREM', name.holders, member_of(flag, share, claim))\n" => "  redis.call('DEL', name.holders)\n";
    rwlock_release_of_a_writer_forgets_the_readers_behind: lock::RELEASE, Where::Queue;
        "  while name.waits do\n" => "  for _ = 1, name.waits and 1 or 0 do\n";
};

/// Mutants that only the search must find.
pub(super) const SEARCHED: &[Mutant] = mutants! {
    rwlock_renew_read_revives_the_dead: lock::RENEW_INFLATED, Where::Conversions;
        "elseif tonumber(found[1] or 0) > now then" => "elseif tonumber(found[1] or 0) > 0 then";
    rwlock_readers_share_the_lease_of_the_last: lock::ACQUIRE, Where::UnequalLeases;
        "  put(name, name.now + ttl, member_of('', share, claim))\n" => "  put(name, name.now + ttl, member_of('', share, claim))\n  for _, other in ipairs(redis.call('ZRANGE', name.holders, 0, -1)) do\n    redis.call('ZADD', name.holders, text_of(name.now + ttl), other)\n  end\n";
    rwlock_each_reader_draws_a_token: lock::ACQUIRE, Where::Conversions;
        "local token = shared and name.token or" => "local token = share == 'x' and name.token or";
    rwlock_conversion_advances_nothing: lock::CONVERT, Where::Conversions;
        "\nadvance(name)\n" => "\n";
    rwlock_acquire_lets_readers_join_a_revoked_one: lock::ACQUIRE, Where::Revoked;
        "  return not name.revoked and name.parts + weight_of(share)" => "  return name.parts + weight_of(share)";
    rwlock_upgrade_keeps_the_token: lock::CONVERT, Where::Conversions;
        "    local token = draw_token(name.counter, name.floor, name.now_us)\n" => "    local token = redis.call('GET', name.counter)\n";
};
