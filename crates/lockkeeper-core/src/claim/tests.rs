use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::words::agenda::Pace;
use crate::words::owner::Owner;

const TTL: Duration = Duration::from_millis(1000);
const MARGIN: Duration = Duration::from_millis(15);
const TOKEN: FencingToken = FencingToken::new(7);

fn at(ms: u64) -> Moment {
    Moment::from_elapsed(Duration::from_millis(ms))
}

fn claim() -> Claim {
    Claim::new(
        ClaimId::new(Owner::new(Uuid::from_u128(1), 1), 1),
        TTL,
        MARGIN,
    )
}

/// A claim that may wait in a queue, with a heartbeat every 300 ms while it waits.
fn waiter() -> Claim {
    let heartbeats = Pace {
        steady: Duration::from_millis(300),
        hurried: Duration::from_millis(150),
    };
    claim()
        .with_queue(Duration::from_millis(900), Duration::from_millis(300))
        .with_upkeep(None, heartbeats, Duration::from_millis(900), None)
}

/// A claim whose acquire was sent at 0 and answered at `answered`.
fn held(answered: u64) -> Claim {
    let mut claim = claim();
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    assert_eq!(
        claim.answered(1, Answer::Granted(TOKEN), at(answered)),
        Verdict::Granted(TOKEN)
    );
    claim
}

#[test]
fn a_deadline_counts_from_the_send_and_not_from_the_answer() {
    let claim = held(900);
    assert_eq!(claim.deadline(), Some(at(985)));
    assert_eq!(claim.validity(at(984)), Validity::Valid);
    assert_eq!(
        claim.validity(at(985)),
        Validity::Ended(Ending::Lost(LossReason::Expired))
    );
}

#[test]
fn the_first_request_is_for_a_free_name_until_something_says_otherwise() {
    assert!(!claim().may_be_inflated() && claim().expecting_others(true).may_be_inflated());
    let mut refused = claim();
    refused.send(Verb::Acquire, 1, at(0)).unwrap();
    assert_eq!(refused.answered(1, Answer::Inflated, at(1)), Verdict::More);
    assert!(refused.may_be_inflated());
    refused.send(Verb::Acquire, 2, at(1)).unwrap();
    refused.answered(2, Answer::Granted(TOKEN), at(2));
    assert!(refused.may_be_inflated(), "others may hold beside it");

    // Its repeat must find its own claim, rather than take it for another's.
    let mut unanswered = claim();
    unanswered.send(Verb::Acquire, 1, at(0)).unwrap();
    unanswered.failed(1, Outcome::Unknown);
    assert!(unanswered.may_be_inflated());
    let mut unsent = claim();
    unsent.send(Verb::Acquire, 1, at(0)).unwrap();
    unsent.failed(1, Outcome::NotSent);
    assert!(!unsent.may_be_inflated());
}

#[test]
fn a_claim_that_has_ended_knows_its_token_until_another_is_written_back() {
    let mut claim = held(1);
    claim.raised(FencingToken::new(9));
    claim.raised(FencingToken::new(8));
    claim.end(at(2));
    assert_eq!(
        (claim.token(), claim.drawn()),
        (None, Some(FencingToken::new(9)))
    );
    claim.send(Verb::Release, 2, at(2)).unwrap();
    assert_eq!(claim.answered(2, Answer::Inflated, at(3)), Verdict::More);
    assert!(claim.may_be_inflated());
    claim.send(Verb::Release, 3, at(3)).unwrap();
    assert_eq!(claim.answered(3, Answer::Dropped, at(4)), Verdict::Dropped);
    assert_eq!(claim.release_needed(), ReleaseNeeded::None);
}

#[test]
fn a_grant_that_arrives_past_its_deadline_is_not_valid_and_is_released() {
    let mut claim = claim();
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    assert_eq!(
        claim.answered(1, Answer::Granted(TOKEN), at(985)),
        Verdict::Stale
    );
    assert_eq!(claim.release_needed(), ReleaseNeeded::Plain);
    assert_eq!(
        claim.send(Verb::Acquire, 2, at(990)),
        Err(NotNow::OutOfOrder)
    );
}

#[test]
fn a_second_request_waits_for_the_first_unless_it_is_a_leave() {
    let mut claim = held(1);
    claim.send(Verb::Renew, 2, at(300)).unwrap();
    assert_eq!(claim.send(Verb::Renew, 3, at(400)), Err(NotNow::Unanswered));
    assert_eq!(
        claim.send(Verb::Release, 3, at(400)),
        Err(NotNow::OutOfOrder),
        "validity must end first"
    );
    claim.end(at(400));
    assert_eq!(claim.send(Verb::Release, 3, at(400)), Ok(()));
    assert_eq!(
        claim.send(Verb::Release, 4, at(400)),
        Err(NotNow::Unanswered)
    );
}

#[test]
fn validity_ends_before_the_release_is_sent_and_never_comes_back() {
    let mut claim = held(1);
    claim.send(Verb::Renew, 2, at(300)).unwrap();
    claim.end(at(400));
    assert_eq!(claim.validity(at(400)), Validity::Ended(Ending::Released));
    assert_eq!(
        claim.answered(2, Answer::Renewed, at(401)),
        Verdict::Ignored
    );
    assert_eq!(claim.validity(at(401)), Validity::Ended(Ending::Released));
}

#[test]
fn a_claim_that_was_given_up_needs_no_release_when_its_repeat_was_not_sent() {
    let mut claim = claim();
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    claim.failed(1, Outcome::Unknown);
    claim.send(Verb::Acquire, 2, at(10)).unwrap();
    claim.answered(2, Answer::Granted(TOKEN), at(20));
    claim.send(Verb::Acquire, 3, at(300)).unwrap();
    assert!(claim.give_up(at(301)));
    claim.failed(3, Outcome::NotSent);
    assert_eq!(
        claim.release_needed(),
        ReleaseNeeded::None,
        "a plain leave would let the copy of request 1 create the claim again"
    );
}

/// The message is about a copy of the first acquire, which had been abandoned. It arrives before the answer to the
/// second.
#[test]
fn an_early_message_that_names_another_request_lets_the_claim_wait_and_ask_again() {
    let mut claim = waiter();
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    claim.failed(1, Outcome::Unknown);
    claim.send(Verb::Acquire, 2, at(10)).unwrap();
    claim.granted_by_message(FencingToken::new(7), 1, at(20));
    let verdict = claim.answered(
        2,
        Answer::Waiting {
            place: 1,
            left: None,
        },
        at(30),
    );
    assert_eq!(verdict, Verdict::Waiting(1));
    assert_eq!(claim.agenda().due, Some(at(30)));
    claim.send(Verb::Heartbeat, 3, at(31)).unwrap();
    claim.answered(
        3,
        Answer::Waiting {
            place: 1,
            left: None,
        },
        at(32),
    );
    assert_eq!(claim.agenda().due, Some(at(331)));
}

#[test]
fn what_only_an_answer_can_tell_is_asked_again_behind_the_heartbeat_on_its_way() {
    let mut claim = waiter();
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    claim.answered(
        1,
        Answer::Waiting {
            place: 1,
            left: None,
        },
        at(1),
    );
    claim.send(Verb::Heartbeat, 2, at(300)).unwrap();
    let verdict = claim.granted_by_message(FencingToken::new(7), 1, at(700));
    assert_eq!(verdict, Verdict::Recheck);
    claim.doubt_place();
    assert_eq!(
        claim.answered(
            2,
            Answer::Waiting {
                place: 1,
                left: None
            },
            at(701)
        ),
        Verdict::Waiting(1)
    );
    assert_eq!(claim.agenda().due, Some(at(701)));
}

#[test]
fn a_renewal_answered_after_the_deadline_brings_nothing_back() {
    let mut claim = held(1);
    claim.send(Verb::Renew, 2, at(980)).unwrap();
    assert_eq!(
        claim.answered(2, Answer::Renewed, at(985)),
        Verdict::Lost(LossReason::Expired)
    );
    assert_eq!(claim.release_needed(), ReleaseNeeded::Plain);
}

#[test]
fn an_unanswered_renewal_makes_the_lease_uncertain_until_one_is_answered() {
    let mut claim = held(1);
    claim.send(Verb::Renew, 2, at(300)).unwrap();
    assert_eq!(
        claim.validity(at(400)),
        Validity::Valid,
        "a request on its way is no failure yet"
    );
    claim.failed(2, Outcome::Unknown);
    assert_eq!(claim.validity(at(500)), Validity::Uncertain);
    claim.send(Verb::Renew, 3, at(500)).unwrap();
    assert_eq!(
        claim.answered(2, Answer::Renewed, at(501)),
        Verdict::Ignored,
        "given up is given up"
    );
    assert_eq!(
        claim.answered(3, Answer::Renewed, at(502)),
        Verdict::Renewed
    );
    assert_eq!(claim.validity(at(503)), Validity::Valid);
    assert_eq!(claim.deadline(), Some(at(1485)));
}

#[test]
fn no_renewal_moves_the_deadline_beyond_the_longest_hold() {
    let mut claim = claim().with_max_hold(Some(Duration::from_millis(1500)));
    claim.send(Verb::Acquire, 1, at(100)).unwrap();
    claim.answered(1, Answer::Granted(TOKEN), at(101));
    assert_eq!(claim.deadline(), Some(at(1085)), "the lease ends first");
    claim.send(Verb::Renew, 2, at(800)).unwrap();
    assert_eq!(
        claim.answered(2, Answer::Renewed, at(801)),
        Verdict::Renewed
    );
    assert_eq!(claim.deadline(), Some(at(1600)));
    assert_eq!(
        claim.validity(at(1600)),
        Validity::Ended(Ending::Lost(LossReason::MaxHold))
    );
    assert!(claim.expire(at(1600)));
    assert_eq!(claim.release_needed(), ReleaseNeeded::Plain);
}

#[test]
fn a_renewal_past_the_deadline_is_not_even_sent() {
    let mut claim = held(1);
    assert_eq!(claim.send(Verb::Renew, 2, at(985)), Err(NotNow::OutOfOrder));
}

#[test]
fn an_acquire_that_was_given_up_is_repeated_and_its_leave_overtakes() {
    let mut claim = claim();
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    claim.failed(1, Outcome::Unknown);
    claim.send(Verb::Acquire, 2, at(100)).unwrap();
    assert_eq!(
        claim.answered(2, Answer::Granted(TOKEN), at(101)),
        Verdict::Granted(TOKEN)
    );
    assert_eq!(
        claim.deadline(),
        Some(at(1085)),
        "counted from the request that was answered"
    );
    claim.end(at(200));
    assert_eq!(
        claim.release_needed(),
        ReleaseNeeded::WithTombstone,
        "the first copy may still be on its way"
    );
}

#[test]
fn a_lease_with_a_given_up_acquire_is_renewed_by_its_token() {
    let with_given_up = || {
        let mut claim = claim();
        claim.send(Verb::Acquire, 1, at(0)).unwrap();
        claim.failed(1, Outcome::Unknown);
        claim.send(Verb::Acquire, 2, at(100)).unwrap();
        claim.answered(2, Answer::Granted(TOKEN), at(101));
        assert_eq!(claim.send(Verb::Renew, 3, at(400)), Err(NotNow::OutOfOrder));
        claim.send(claim.renewal(), 3, at(400)).unwrap();
        claim
    };
    let mut same = with_given_up();
    assert_eq!(
        same.answered(3, Answer::Granted(TOKEN), at(401)),
        Verdict::Renewed
    );
    assert_eq!(same.deadline(), Some(at(1385)));

    for answer in [
        Answer::Granted(FencingToken::new(9)),
        Answer::Busy(None),
        Answer::Gone,
    ] {
        let mut other = with_given_up();
        assert_eq!(
            other.answered(3, answer, at(401)),
            Verdict::Lost(LossReason::Gone)
        );
        assert_eq!(other.release_needed(), ReleaseNeeded::WithTombstone);
    }
}

#[test]
fn busy_leaves_nothing_behind_but_a_given_up_acquire_does() {
    let mut clean = claim();
    clean.send(Verb::Acquire, 1, at(0)).unwrap();
    assert_eq!(
        clean.answered(1, Answer::Busy(None), at(1)),
        Verdict::Busy(None)
    );
    assert_eq!(clean.release_needed(), ReleaseNeeded::None);

    let mut given_up = claim();
    given_up.send(Verb::Acquire, 1, at(0)).unwrap();
    given_up.failed(1, Outcome::Unknown);
    given_up.send(Verb::Acquire, 2, at(1)).unwrap();
    given_up.answered(2, Answer::Busy(None), at(2));
    assert_eq!(given_up.release_needed(), ReleaseNeeded::WithTombstone);
}

#[test]
fn an_acquire_that_was_never_sent_needs_no_leave() {
    let mut claim = claim();
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    claim.failed(1, Outcome::NotSent);
    assert_eq!(claim.release_needed(), ReleaseNeeded::None);
}

#[test]
fn a_claim_dropped_while_its_acquire_is_on_its_way_leaves_behind_it() {
    let mut claim = claim();
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    claim.end(at(1));
    assert_eq!(claim.release_needed(), ReleaseNeeded::WithTombstone);
    assert!(!claim.may_resend(1), "no EVAL behind a leave");
    claim.send(Verb::Release, 2, at(1)).unwrap();
    assert_eq!(
        claim.answered(1, Answer::Granted(TOKEN), at(2)),
        Verdict::Ignored
    );
    assert_eq!(
        claim.answered(
            2,
            Answer::Released {
                told: true,
                holds: 0
            },
            at(3)
        ),
        Verdict::Released {
            told: true,
            holds: 0
        }
    );
    assert_eq!(claim.release_needed(), ReleaseNeeded::None);
}

#[test]
fn not_held_after_an_unanswered_leave_of_ones_own_is_free() {
    let mut claim = held(1);
    claim.end(at(2));
    claim.send(Verb::Release, 2, at(2)).unwrap();
    claim.failed(2, Outcome::Unknown);
    claim.send(Verb::Release, 3, at(3)).unwrap();
    assert_eq!(
        claim.answered(3, Answer::NotHeld { holds: 0 }, at(4)),
        Verdict::Released {
            told: false,
            holds: 0
        }
    );
}

#[test]
fn not_held_at_the_first_leave_means_that_it_was_lost() {
    let mut claim = held(1);
    claim.end(at(2));
    claim.send(Verb::Release, 2, at(2)).unwrap();
    assert_eq!(
        claim.answered(2, Answer::NotHeld { holds: 0 }, at(4)),
        Verdict::WasGone
    );
}

#[test]
fn a_claim_that_closing_gives_up_is_lost_and_left_to_expire() {
    let mut claim = held(1);
    assert!(claim.give_up(at(2)));
    assert_eq!(
        claim.validity(at(3)),
        Validity::Ended(Ending::Lost(LossReason::ClientClosed))
    );
    assert_eq!(claim.release_needed(), ReleaseNeeded::None);
}

#[test]
fn a_repeated_leave_does_not_know_whether_the_wake_of_the_first_went_out() {
    let left = TTL;
    for (answer, verdict) in [
        (
            Answer::Cooldown { told: true, left },
            Verdict::Cooldown { told: false, left },
        ),
        (
            Answer::Released {
                told: true,
                holds: 1,
            },
            Verdict::Released {
                told: false,
                holds: 1,
            },
        ),
    ] {
        let mut claim = held(1);
        claim.end(at(2));
        claim.send(Verb::Release, 2, at(2)).unwrap();
        claim.failed(2, Outcome::Unknown);
        claim.send(Verb::Release, 3, at(3)).unwrap();
        assert_eq!(claim.answered(3, answer, at(4)), verdict);
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Send(Verb),
    Answer(u8),
    Fail(u8),
    End,
    Tick,
    GiveUp,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop_oneof![Just(Verb::Acquire), Just(Verb::Renew), Just(Verb::Release)]
            .prop_map(Step::Send),
        (0..8u8).prop_map(Step::Answer),
        (0..3u8).prop_map(Step::Fail),
        Just(Step::End),
        Just(Step::Tick),
        Just(Step::GiveUp),
    ]
}

#[test]
fn a_refused_conversion_counts_unless_another_request_for_it_may_still_be_executed() {
    for (outcome, validity) in [
        (Outcome::NotSent, Validity::Uncertain),
        (Outcome::Unknown, Validity::Ended(Ending::Released)),
    ] {
        let mut claim = held(0);
        claim.begin_conversion(2, true, at(10)).unwrap();
        claim.failed(2, outcome);
        claim.begin_conversion(3, true, at(20)).unwrap();
        claim.conversion_refused(3, at(30));
        assert_eq!(claim.validity(at(30)), validity);
    }
}

proptest! {
    /// For any events: validity never exceeds ttl − margin from a send and never returns once it has ended, and an
    /// acquire is never sent for an ended claim.
    #[test]
    fn validity_obeys_the_laws_under_any_events(steps in prop::collection::vec((any_step(), 0..400u64), 1..40)) {
        let mut claim = claim();
        let (mut now, mut request, mut last_sent, mut ended) = (0, 0, 0, false);
        for (step, pause) in steps {
            now += pause;
            match step {
                Step::Send(verb) => {
                    request += 1;
                    if claim.send(verb, request, at(now)).is_ok() {
                        prop_assert!(!ended || verb == Verb::Release);
                        if verb != Verb::Release {
                            last_sent = now;
                        }
                    }
                }
                Step::Answer(which) => {
                    let answer = [
                        Answer::Granted(TOKEN), Answer::Busy(None), Answer::Renewed, Answer::Gone,
                        Answer::Released { told: true, holds: 0 }, Answer::NotHeld { holds: 0 }, Answer::WrongKind, Answer::Held(TTL),
                    ][usize::from(which)];
                    claim.answered(request, answer, at(now));
                }
                Step::Fail(which) => {
                    let outcome = [Outcome::NotSent, Outcome::Unknown, Outcome::Refused][usize::from(which)];
                    claim.failed(request, outcome);
                }
                Step::End => claim.end(at(now)),
                Step::Tick => { claim.expire(at(now)); }
                Step::GiveUp => { claim.give_up(at(now)); }
            }
            let validity = claim.validity(at(now));
            if matches!(validity, Validity::Valid | Validity::Uncertain) {
                prop_assert!(!ended, "validity came back");
                prop_assert!(at(now) < at(last_sent).after(TTL - MARGIN));
            }
            ended |= matches!(validity, Validity::Ended(_));
        }
    }
}
