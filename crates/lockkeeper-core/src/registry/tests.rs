use std::time::{Duration, SystemTime};

use crate::registry::*;
use crate::words::token::FencingToken;

const C: &str = "channel";
const PATIENCE: Duration = Duration::from_secs(30);

fn at(ms: u64) -> Moment {
    Moment::from_elapsed(Duration::from_millis(ms))
}

fn looks(registry: &mut Registry<()>, waiter: WaiterId, ms: u64) -> bool {
    matches!(registry.turn(C, waiter, at(ms)), Turn::Poll)
}

/// A registry whose channel is open with this many waiters, and whose poller has polled in vain.
fn waiting(waiters: u64) -> Registry<()> {
    let mut registry = Registry::<()>::default();
    for _ in 0..waiters {
        registry.join(C, (), None, PATIENCE, None, at(0));
    }
    registry.subscribed(C, at(0));
    assert!(looks(&mut registry, 1, 0));
    registry.busy(C, 1, Some(at(4000)), at(0));
    registry
}

#[test]
fn the_first_waiter_subscribes_and_looks_once_that_is_confirmed() {
    let mut registry = Registry::<()>::default();
    assert_eq!(
        registry.join(C, (), None, PATIENCE, None, at(0)),
        (1, vec![Step::Subscribe(C.into())])
    );
    assert_eq!(
        registry.join(C, (), None, PATIENCE, None, at(0)),
        (2, vec![])
    );
    assert!(
        !looks(&mut registry, 1, 0),
        "not before the subscription is confirmed"
    );
    assert_eq!(registry.subscribed(C, at(0)), [Step::Wake(1)]);
    assert!(looks(&mut registry, 1, 0));
    assert!(!looks(&mut registry, 2, 0), "one poller is enough");
}

#[test]
fn a_message_wakes_the_poller_alone_and_is_kept_while_it_looks() {
    let mut registry = waiting(2);
    assert_eq!(registry.message(C, at(1)), [Step::Wake(1)]);
    assert!(looks(&mut registry, 1, 1));
    assert_eq!(registry.message(C, at(1)), [Step::Wake(1)]);
    registry.busy(C, 1, None, at(2));
    assert!(
        looks(&mut registry, 1, 2),
        "the second message came during the look"
    );
}

/// A waiter for a majority of servers gathers their messages before it polls.
#[test]
fn a_poller_that_looks_again_before_it_asks_leaves_no_message_to_the_next() {
    let mut registry = waiting(2);
    registry.message(C, at(1));
    assert!(looks(&mut registry, 1, 1));
    registry.message(C, at(2));
    assert!(looks(&mut registry, 1, 3), "it sees the second message too");
    assert!(!looks(&mut registry, 1, 4), "and none after that");
    registry.leave(C, 1, Some(at(4000)), at(5));
    assert!(!looks(&mut registry, 2, 5), "the holder has just come");
    registry.message(C, at(6));
    assert!(looks(&mut registry, 2, 6));
}

#[test]
fn a_poller_that_goes_in_the_middle_of_a_look_hands_it_on() {
    let mut registry = waiting(2);
    registry.message(C, at(1));
    assert!(looks(&mut registry, 1, 1));
    assert_eq!(registry.leave(C, 1, None, at(1)), [Step::Wake(2)]);
    assert!(looks(&mut registry, 2, 1));
}

#[test]
fn a_poller_that_goes_before_it_looked_hands_the_wake_on() {
    let mut registry = waiting(2);
    registry.message(C, at(1));
    assert_eq!(registry.leave(C, 1, None, at(1)), [Step::Wake(2)]);
    assert!(looks(&mut registry, 2, 1));
}

#[test]
fn a_poller_that_was_granted_lets_the_next_wait_for_its_own_lease() {
    let mut registry = waiting(2);
    registry.message(C, at(1));
    assert!(looks(&mut registry, 1, 1));
    assert_eq!(registry.leave(C, 1, Some(at(301)), at(1)), [Step::Wake(2)]);
    assert!(matches!(registry.turn(C, 2, at(2)), Turn::Wait(Some(until)) if until == at(301)));
    assert!(looks(&mut registry, 2, 301));
}

#[test]
fn a_message_during_the_granted_look_is_not_lost() {
    let mut registry = waiting(2);
    registry.message(C, at(1));
    assert!(looks(&mut registry, 1, 1));
    registry.message(C, at(1));
    registry.leave(C, 1, Some(at(301)), at(2));
    assert!(looks(&mut registry, 2, 2));
}

#[test]
fn a_waiter_in_the_middle_goes_without_noise() {
    let mut registry = waiting(3);
    assert_eq!(registry.leave(C, 2, None, at(1)), []);
    assert_eq!(registry.leave(C, 1, None, at(1)), [Step::Wake(3)]);
    assert!(
        !looks(&mut registry, 3, 1),
        "the last look was answered and nothing has happened since"
    );
}

#[test]
fn silence_ends_with_the_holders_lease_or_the_safety_poll() {
    let mut registry = waiting(1);
    assert!(!looks(&mut registry, 1, 3999));
    assert!(
        looks(&mut registry, 1, 4000),
        "the holder's lease has ended"
    );
    registry.busy(C, 1, Some(at(99_000)), at(4000));
    assert!(looks(&mut registry, 1, 9000), "the safety poll");
}

#[test]
fn after_a_gap_every_poller_looks() {
    let mut registry = waiting(2);
    registry.join("other", (), None, PATIENCE, None, at(1));
    let steps = registry.gap(at(5000));
    assert_eq!(steps, [Step::Wake(1), Step::Wake(3)]);
}

#[test]
fn a_subscription_lingers_and_is_found_again() {
    let mut registry = waiting(1);
    assert_eq!(registry.leave(C, 1, None, at(1)), []);
    assert_eq!(registry.tick(at(5000)), []);
    let (second, steps) = registry.join(C, (), None, PATIENCE, None, at(5000));
    assert_eq!(steps, [], "still subscribed");
    assert!(
        looks(&mut registry, second, 5000),
        "what it missed before it joined was told to nobody"
    );
    registry.leave(C, second, None, at(6000));
    assert_eq!(
        registry.tick(at(5001)),
        [],
        "the first linger was cut short"
    );
    assert_eq!(registry.next(), Some(at(11_000)));
    assert_eq!(registry.tick(at(11_000)), [Step::Unsubscribe(C.into())]);
    assert_eq!(registry.unsubscribed(C), []);
    assert!(registry.is_empty());
}

#[test]
fn who_arrives_while_a_subscription_goes_gets_a_new_one() {
    let mut registry = waiting(1);
    registry.leave(C, 1, None, at(0));
    registry.tick(at(5000));
    assert_eq!(registry.join(C, (), None, PATIENCE, None, at(5000)).1, []);
    assert_eq!(registry.unsubscribed(C), [Step::Subscribe(C.into())]);
}

#[test]
fn a_failed_subscription_is_tried_again_and_the_poller_polls_meanwhile() {
    let mut registry = Registry::<()>::default();
    registry.join(C, (), None, PATIENCE, None, at(0));
    assert_eq!(registry.subscription_failed(C, None, at(0)), []);
    assert_eq!(registry.next(), Some(at(1000)));
    assert_eq!(registry.tick(at(1000)), [Step::Subscribe(C.into())]);
    assert!(looks(&mut registry, 1, 5000));
    registry.subscription_failed(C, None, at(5000));
    assert_eq!(
        registry.gap(at(5000)),
        [Step::Wake(1), Step::Subscribe(C.into())]
    );
}

#[test]
fn a_refused_subscription_is_told_to_every_waiter() {
    let mut registry = Registry::<()>::default();
    registry.join(C, (), None, PATIENCE, None, at(0));
    registry.join(C, (), None, PATIENCE, None, at(0));
    let steps = registry.subscription_failed(C, Some(StoreError::refused("NOPERM")), at(0));
    assert_eq!(steps, [Step::Wake(1), Step::Wake(2)]);
    assert!(matches!(registry.turn(C, 2, at(0)), Turn::GiveUp(_)));
}

#[test]
fn what_is_done_is_told_to_everybody_who_waited_before_the_look_and_to_nobody_who_came_later() {
    let mut registry = waiting(3);
    let record = Arc::new(Record {
        value: None,
        claim: String::new(),
        owner: None,
        token: FencingToken::new(7),
        at: SystemTime::UNIX_EPOCH,
        left: None,
        fingerprint: String::new(),
    });
    let (once, latch) = (Kind::new("once"), Kind::new("latch"));
    registry.message(C, at(10));
    assert!(looks(&mut registry, 1, 10));
    let (late, _) = registry.join(C, (), None, PATIENCE, None, at(10));
    let steps = registry.tell_done(C, once, 1, &record);
    assert_eq!(steps, [1, 2, 3, late].map(Step::Wake));
    assert!(registry.done(C, once, late).is_none());
    for waiter in 1..=3 {
        assert_eq!(registry.done(C, once, waiter), Some(Arc::clone(&record)));
        assert!(registry.done(C, latch, waiter).is_none(), "another kind");
        registry.leave(C, waiter, None, at(10));
    }
    registry.leave(C, late, None, at(10));
    assert!(registry.done(C, once, 1).is_none(), "kept for nobody");
}

#[test]
fn who_waits_for_very_many_names_looks_at_each_of_them_less_often() {
    const NAMES: u64 = 10_000;
    let mut registry = Registry::<()>::default();
    let name = |number| format!("channel {number}");
    for number in 0..NAMES {
        registry.join(&name(number), (), None, PATIENCE, None, at(0));
        registry.subscribed(&name(number), at(0));
    }
    let mut wait = |number: u64, free| {
        let (name, waiter) = (name(number), number + 1);
        let look = registry.turn(&name, waiter, at(0));
        assert!(matches!(look, Turn::Poll));
        registry.busy(&name, waiter, free, at(0));
        match registry.turn(&name, waiter, at(0)) {
            Turn::Wait(Some(until)) => until,
            turn => panic!("{turn:?}"),
        }
    };
    assert_eq!(wait(0, None), at(25_000), "400 looks a second in all");
    assert_eq!(wait(1, Some(at(9_000))), at(9_000), "the lease ends before");
}

#[test]
fn behind_a_poller_that_must_wait_those_that_can_hold_together_look() {
    let mut registry = waiting(4);
    for waiter in [2, 3, 4] {
        registry.share(C, waiter, 1);
        assert!(looks(&mut registry, waiter, 9));
    }
    assert_eq!(registry.message(C, at(10)), [Step::Wake(1)]);
    assert!(looks(&mut registry, 1, 10));
    assert_eq!(registry.busy(C, 1, None, at(10)), [Step::Wake(2)]);
    assert!(looks(&mut registry, 2, 11) && !looks(&mut registry, 3, 11));

    // It is granted: the next one that can join it asks, once. If that one gives up, the one after it asks.
    let steps = registry.leave(C, 2, Some(at(4000)), at(11));
    assert_eq!(steps, [Step::Wake(3)]);
    assert!(looks(&mut registry, 3, 12) && !looks(&mut registry, 4, 12));
    assert!(!looks(&mut registry, 3, 13) && !looks(&mut registry, 1, 13));
    let (fifth, _) = registry.join(C, (), None, PATIENCE, None, at(13));
    registry.share(C, fifth, 1);
    assert!(looks(&mut registry, fifth, 13));
    assert_eq!(registry.leave(C, 3, None, at(13)), [Step::Wake(4)]);
    assert!(looks(&mut registry, 4, 13) && !looks(&mut registry, fifth, 13));

    // One of them polls and is told that the name is busy. The others would be told the same.
    registry.leave(C, 1, None, at(14));
    registry.message(C, at(15));
    assert!(looks(&mut registry, 4, 15));
    assert_eq!(registry.busy(C, 4, None, at(15)), []);
}

#[test]
fn one_of_those_that_can_hold_together_whose_task_is_blocked_keeps_no_other_from_looking() {
    let mut registry = waiting(3);
    registry.share(C, 2, 1);
    registry.share(C, 3, 1);
    let vain = |registry: &mut Registry<()>, ms| {
        registry.message(C, at(ms));
        assert!(looks(registry, 1, ms));
        registry.busy(C, 1, None, at(ms))
    };
    assert!(looks(&mut registry, 2, 9) && looks(&mut registry, 3, 9));
    assert_eq!(vain(&mut registry, 10), [Step::Wake(2)]);
    assert_eq!(vain(&mut registry, 11), [Step::Wake(3)]);
    assert_eq!(vain(&mut registry, 12), []);
    assert!(looks(&mut registry, 3, 13) && looks(&mut registry, 2, 13));
}

#[test]
fn one_that_can_hold_together_with_others_looks_once_more_when_it_comes_behind_one_that_cannot() {
    let mut registry = waiting(1);
    let (second, _) = registry.join(C, (), None, PATIENCE, None, at(10));
    registry.share(C, second, 1);
    assert!(looks(&mut registry, second, 10) && !looks(&mut registry, second, 11));
    registry.leave(C, 1, None, at(12));
    let (third, _) = registry.join(C, (), None, PATIENCE, None, at(13));
    registry.share(C, third, 1);
    assert!(!looks(&mut registry, third, 13), "the first can share");
}

#[test]
fn one_that_asks_for_more_than_there_is_keeps_nobody_waiting() {
    let mut registry = waiting(4);
    for (waiter, parts) in [(1, 5), (2, 4), (3, 2), (4, 1)] {
        registry.share(C, waiter, parts);
    }
    registry.message(C, at(10));
    assert!(looks(&mut registry, 1, 10) && !looks(&mut registry, 2, 10));
    registry.has_parts(C, 3);
    assert_eq!(registry.busy(C, 1, None, at(10)), [Step::Wake(3)]);
    assert!(looks(&mut registry, 3, 11) && !looks(&mut registry, 2, 11));
    // The one behind it waits for its turn, unless that one learns that there is still less.
    assert_eq!(registry.busy(C, 3, None, at(11)), []);
    let (fifth, _) = registry.join(C, (), None, PATIENCE, None, at(12));
    registry.share(C, fifth, 1);
    assert!(
        !looks(&mut registry, fifth, 12),
        "there are others before it"
    );
    registry.has_parts(C, 1);
    assert_eq!(registry.busy(C, 3, None, at(12)), [Step::Wake(4)]);
    assert!(looks(&mut registry, 4, 12));
    assert_eq!(
        registry.leave(C, 4, Some(at(4000)), at(13)),
        [Step::Wake(5)]
    );

    // The next poll asks whether there is more now, and then the order of arrival counts again.
    registry.message(C, at(14));
    assert!(looks(&mut registry, 1, 14));
    assert_eq!(registry.busy(C, 1, None, at(14)), []);
    assert!(looks(&mut registry, 5, 14) && !looks(&mut registry, 3, 14));
}

#[test]
fn one_that_comes_behind_those_that_ask_for_too_much_looks_at_once() {
    let mut registry = waiting(1);
    registry.share(C, 1, 5);
    registry.message(C, at(10));
    assert!(looks(&mut registry, 1, 10));
    registry.has_parts(C, 3);
    registry.busy(C, 1, None, at(10));
    let (second, _) = registry.join(C, (), None, PATIENCE, None, at(11));
    registry.share(C, second, 4);
    assert!(!looks(&mut registry, second, 11), "it asks for too much");
    let (third, _) = registry.join(C, (), None, PATIENCE, None, at(12));
    registry.share(C, third, 3);
    assert!(looks(&mut registry, third, 12));
}

#[test]
fn while_a_poll_stays_without_an_answer_the_least_patient_polls_beside_it() {
    let mut registry = waiting(2);
    let error = StoreError::unknown("no answer");
    for patience in [5, 2, 2] {
        let patience = Duration::from_secs(patience);
        registry.join(C, (), None, patience, None, at(0));
    }
    assert_eq!(registry.silent(C, 1), [Step::Wake(4)]);
    assert_eq!(registry.silent(C, 1), [], "it has been told");
    assert!(looks(&mut registry, 4, 1) && !looks(&mut registry, 3, 1));
    assert_eq!(registry.silent(C, 4), [], "nobody has less patience");
    registry.unreachable(C, 4, &error);
    let gives_up = |turn| matches!(turn, Turn::GiveUp(_));
    assert!(
        [4, 5]
            .map(|waiter| registry.turn(C, waiter, at(2)))
            .into_iter()
            .all(gives_up)
    );
    assert!(
        ![1, 2, 3]
            .map(|waiter| registry.turn(C, waiter, at(2)))
            .into_iter()
            .any(gives_up)
    );
}

#[test]
fn a_lost_connection_makes_every_poller_poll_soon() {
    let mut registry = waiting(2);
    registry.join("other", (), None, PATIENCE, None, at(0));
    assert_eq!(registry.cut(at(5)), [Step::Wake(1), Step::Wake(3)]);
    assert!(!looks(&mut registry, 1, 1_004) && looks(&mut registry, 1, 1_005));
    assert!(!looks(&mut registry, 2, 1_005));
}
