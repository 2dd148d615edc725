//! Every state of a semaphore of Redisson's with one permit within small bounds, and mistakes in its scripts, which the same search must find.
//!
//! With one permit each rule of a lock must hold: a permit that is given back twice lets two in, one that is lost lets nobody in.

use anyhow::Result;
use lockkeeper_lua::redisson;
use lockkeeper_testkit::kinds::KindModel;
use lockkeeper_testkit::search::Bounds;
use lockkeeper_testkit::third;

use crate::search::{
    Mistake, bounds_of_mistakes, every_mistake_is_found, holds_everywhere, mistakes,
};

const KINDS: [KindModel; 2] = [KindModel::REDISSON_SEMAPHORE, KindModel::REDISSON_PERMITS];

#[test]
fn every_rule_holds_in_every_state_nearby() -> Result<()> {
    for kind in KINDS {
        for bounds in Bounds::short(&kind) {
            holds_everywhere(kind, bounds)?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_rule_holds_in_every_state() -> Result<()> {
    for kind in KINDS {
        for bounds in third::of(Bounds::quick(&kind)) {
            holds_everywhere(kind, bounds)?;
        }
    }
    Ok(())
}

const MISTAKES: &[Mistake] = mistakes! {
    "a repeat of a grant creates": redisson::PERMITS_ACQUIRE;
        " or ARGV[5] ~= '0' and not (hold and hold.token == ARGV[5])" => "";
    "a repeated acquire takes permits again": redisson::PERMITS_ACQUIRE;
        "0 - missing" => "0 - permits";
    "an acquire passes the tombstone": redisson::PERMITS_ACQUIRE;
        "redis.call('EXISTS', KEYS[4]) == 1" => "false";
    "the permits of the dead do not come back": redisson::PERMITS_ACQUIRE;
        "value and 128 or 0" => "0";
    "the permits of the dead come back again and again": redisson::PERMITS_ACQUIRE;
        "redis.call('ZREM', ends, member), redis.call('HDEL', claims, claim)" => "1, 1";
    "a renewal moves no end": redisson::PERMITS_RENEW;
        "hold.left < ttl and hold.members" => "hold.left < 0 and hold.members";
    "a release gives nothing back": redisson::PERMITS_RELEASE;
        "permits = permits + (leased" => "permits = 0 * (leased";
    "a release wakes nobody": redisson::PERMITS_RELEASE;
        "freed and wake(channel, freed) or '1'" => "'1'";
};

#[test]
fn a_mistake_in_a_script_is_found_without_ends_in_redisson() -> Result<()> {
    every_mistake_is_found(KINDS[0], &bounds_of_mistakes(KINDS[0]), MISTAKES)?;
    // Where Redisson knows of ends, what is known of a claim ends with its lease.
    let revival = (
        "a claim whose time is over is renewed",
        &redisson::PERMITS_RENEW,
        "not hold or hold.left <= 0",
        "not hold",
    );
    every_mistake_is_found(KINDS[0], &bounds_of_mistakes(KINDS[0]), &[revival])
}

#[test]
fn a_mistake_in_a_script_is_found_with_ends_in_redisson() -> Result<()> {
    every_mistake_is_found(KINDS[1], &bounds_of_mistakes(KINDS[1]), MISTAKES)
}
