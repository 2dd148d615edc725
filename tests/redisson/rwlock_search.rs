//! Every state of a name of an `RReadWriteLock` within small bounds, and mistakes in its scripts, which the same search must find.

use anyhow::Result;
use lockkeeper_lua::redisson;
use lockkeeper_testkit::kinds::KindModel;
use lockkeeper_testkit::search::Bounds;
use lockkeeper_testkit::third;

use crate::search::{Mistake, every_mistake_is_found, holds_everywhere, mistakes};

const KIND: KindModel = KindModel::REDISSON_RWLOCK;

#[test]
fn every_rule_holds_in_every_state_nearby() -> Result<()> {
    bounds_nearby()
        .into_iter()
        .try_for_each(|bounds| holds_everywhere(KIND, bounds))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_rule_holds_in_every_state() -> Result<()> {
    third::of(Bounds::quick(&KIND))
        .into_iter()
        .try_for_each(|bounds| holds_everywhere(KIND, bounds))
}

/// Those of any kind, and two claims of each owner, of which one may read inside the write of the other.
fn bounds_nearby() -> Vec<Bounds> {
    let nested = Bounds::new(2, &[2, 2], 1, 0, 0);
    [Bounds::short(&KIND), vec![nested]].concat()
}

const MISTAKES: &[Mistake] = mistakes! {
    "a repeat of a grant creates": redisson::RWLOCK_ACQUIRE;
        " or ARGV[6] ~= '0' and own ~= ARGV[6]" => "";
    "a repeated acquire counts again": redisson::RWLOCK_ACQUIRE;
        "if not own then" => "if true then";
    "an acquire passes the tombstone": redisson::RWLOCK_ACQUIRE;
        "redis.call('EXISTS', KEYS[3]) == 1 or " => "";
    "a writer comes in beside readers": redisson::RWLOCK_ACQUIRE;
        "(stands == 'write' or mode == 'write')" => "stands == 'write'";
    "a reader comes in beside a writer": redisson::RWLOCK_ACQUIRE;
        "(stands == 'write' or mode == 'write')" => "mode == 'write'";
    "readers that hold together do not share a token": redisson::RWLOCK_ACQUIRE;
        "or stands == 'read' and known.read" => "";
    "readers share the token of a write that has ended": redisson::RWLOCK_ACQUIRE;
        "redis.call('HDEL', KEYS[2], 'read')" => "redis.call('HSET', KEYS[2], 'read', token)";
    "a claim that is not counted takes one of its owner": redisson::RWLOCK_RELEASE;
        "if not known.own then" => "if not known.count then";
    "a writer that leaves frees the name beside its own read": redisson::RWLOCK_RELEASE;
        "redis.call('HLEN', KEYS[1]) > 1" => "redis.call('HLEN', KEYS[1]) > 1 and mode ~= 'write'";
    "a reader that leaves frees the name beside another one": redisson::RWLOCK_RELEASE;
        "is_read(KEYS[1], KEYS[4], owner)" => "false";
    "a read has no lease of its own": redisson::RWLOCK_ACQUIRE;
        "if mode ~= 'write' and ttl > 0 and redis.call('PTTL', timeout) < ttl then" => "if false then";
    "a release that others may follow tells nobody": redisson::RWLOCK_RELEASE;
        "{ ARGV[1], 'RELEASED', wake(ARGV[4], message), 0 }" => "{ ARGV[1], 'RELEASED', '1', 0 }";
    "a claim that is not counted is renewed": redisson::RWLOCK_RENEW;
        "if not known.own then" => "if not known.count then";
};

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn a_mistake_in_a_script_is_found() -> Result<()> {
    let late_repeat = Bounds::new(2, &[1], 2, 2, 0);
    let bounds = [bounds_nearby(), vec![late_repeat]].concat();
    every_mistake_is_found(KIND, &bounds, MISTAKES)
}
