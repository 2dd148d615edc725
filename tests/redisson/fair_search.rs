//! Every state of the queue of an `RFairLock` within small bounds, and mistakes in its scripts, which the same search must find.
//!
//! No client dies here: a dead waiter is in the way of all others for minutes, as in Redisson. Each has one acquisition, for those of one owner share a place.

use anyhow::Result;
use lockkeeper_lua::redisson;
use lockkeeper_testkit::kinds::KindModel;
use lockkeeper_testkit::search::Bounds;

use crate::search::{Mistake, every_mistake_is_found, holds_everywhere, mistakes};

const KIND: KindModel = KindModel::REDISSON_FAIR;

fn short() -> Vec<Bounds> {
    let new = Bounds::new;
    vec![
        new(2, &[2], 2, 1, 0),
        new(3, &[2], 2, 0, 0),
        // One holds, one waits, and for a third there is no room.
        Bounds {
            max_queue: Some(1),
            ..new(3, &[2], 2, 0, 0)
        },
    ]
}

#[test]
fn every_rule_of_the_queue_holds_in_every_state_nearby() -> Result<()> {
    short()
        .into_iter()
        .try_for_each(|bounds| holds_everywhere(KIND, bounds))
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_rule_of_the_queue_holds_in_every_state() -> Result<()> {
    let new = Bounds::new;
    let all = [
        // Two requests in trouble around a grant.
        new(2, &[2], 4, 2, 0),
        // One holds, two wait.
        new(3, &[2], 3, 1, 0),
    ];
    all.into_iter()
        .try_for_each(|bounds| holds_everywhere(KIND, bounds))
}

const MISTAKES: &[Mistake] = mistakes! {
    "an acquire passes the queue": redisson::FAIR_ACQUIRE;
        "left == -2 and first and first ~= owner or " => "";
    "an acquire that is late joins the queue": redisson::FAIR_ACQUIRE;
        "if ARGV[5] == '0' and redis.call('EXISTS', KEYS[3]) == 0 then" => "if ARGV[5] == '0' then";
    "a waiter that is granted stays in the queue": redisson::FAIR_HEARTBEAT;
        "      leave(line, owner, wait)\n" => "";
    "a heartbeat grants out of turn": redisson::FAIR_HEARTBEAT;
        "free and first == owner" => "free";
    "a heartbeat creates": redisson::FAIR_HEARTBEAT;
        "place and not known.revoked and (held or free and first == owner)" => "free and (not first or first == owner)";
    "a waiter that leaves stays in the queue": redisson::FAIR_RELEASE;
        "if first and not known.own and" => "if false and";
};

#[test]
fn a_mistake_in_a_script_of_the_queue_is_found() -> Result<()> {
    every_mistake_is_found(KIND, &short(), MISTAKES)
}
