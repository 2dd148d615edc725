use uuid::Uuid;

use super::*;
use crate::claim::{Ending, Validity};
use crate::words::answer::Answer;
use crate::words::ending::LossReason;
use crate::words::owner::{ClaimId, Owner};
use crate::words::store_error::Outcome;

const TOKEN: FencingToken = FencingToken::new(7);
const PACE: Pace = Pace {
    steady: Duration::from_millis(10),
    hurried: Duration::from_millis(5),
};

fn at(ms: u64) -> Moment {
    Moment::from_elapsed(ms_of(ms))
}

const fn ms_of(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A claim that is valid for 29 ms, is renewed every 10, sends heartbeats every 10, waits until 500, and is given up if
/// no acquisition takes the grant within 20.
fn claim(pace: Option<Pace>) -> Claim {
    let id = ClaimId::new(Owner::new(Uuid::from_u128(1), 1), 1);
    Claim::new(id, ms_of(30), ms_of(1))
        .with_queue(ms_of(29), ms_of(1))
        .with_upkeep(pace, PACE, ms_of(20), Some(at(500)))
}

/// A claim that was granted by the answer at 1 to its acquire at 0, and whose holder has been told.
fn held(pace: Option<Pace>) -> Claim {
    let mut claim = claim(pace);
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    claim.answered(1, Answer::Granted(TOKEN), at(1));
    claim.begin_use(at(1));
    claim
}

/// A claim that waits since the answer at 1 to its acquire at 0.
fn waiting() -> Claim {
    let mut claim = claim(Some(PACE));
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    claim.answered(
        1,
        Answer::Waiting {
            place: 1,
            left: None,
        },
        at(1),
    );
    claim
}

fn due(claim: &Claim) -> Option<Moment> {
    claim.agenda().due
}

#[test]
fn a_lease_is_due_a_third_after_its_send_and_only_once() {
    let mut claim = held(Some(PACE));
    assert_eq!(due(&claim), Some(at(10)));
    assert_eq!(claim.pick().map(|it| it.0), Some(Verb::Renew));
    assert_eq!(claim.pick(), None, "it is about to be sent");
    claim.send(Verb::Renew, 2, at(11)).unwrap();
    assert_eq!(claim.pick(), None, "it is on its way");
    assert_eq!(claim.agenda().deadline, Some(at(29)));
}

#[test]
fn a_renewal_moves_both_times_and_a_failure_hurries_the_next() {
    let mut claim = held(Some(PACE));
    claim.send(Verb::Renew, 2, at(10)).unwrap();
    claim.answered(2, Answer::Renewed, at(11));
    let agenda = claim.agenda();
    assert_eq!((agenda.due, agenda.deadline), (Some(at(20)), Some(at(39))));
    claim.send(Verb::Renew, 3, at(20)).unwrap();
    claim.failed(3, Outcome::Unknown);
    assert_eq!(due(&claim), Some(at(25)));
    assert_eq!(claim.run_out(at(38)), Passed::Nothing);
    assert_eq!(claim.run_out(at(39)), Passed::Lost);
    assert_eq!(claim.agenda(), Agenda::default());
}

#[test]
fn what_was_picked_and_could_not_be_sent_is_due_again() {
    let mut claim = held(Some(PACE));
    claim.pick().unwrap();
    claim.unsent(at(12));
    assert_eq!(due(&claim), Some(at(17)));
    claim.unsent(at(100));
    assert_eq!(due(&claim), Some(at(17)), "it was not picked");
}

#[test]
fn a_fixed_lease_and_the_rest_of_a_lost_grant_only_run_out() {
    let mut rest = held(Some(PACE));
    rest.let_run_out();
    for mut claim in [held(None), rest] {
        claim.keep_now(at(1));
        assert_eq!(due(&claim), None);
        assert_eq!(claim.run_out(at(29)), Passed::Lost);
    }
}

#[test]
fn a_claim_of_an_acquisition_that_is_not_complete_is_renewed_until_it_was_to_be_polled_again() {
    let mut claim = held(Some(PACE));
    claim.renew_until(Some(at(15)));
    assert_eq!(due(&claim), Some(at(10)));
    claim.send(Verb::Renew, 2, at(10)).unwrap();
    claim.answered(2, Answer::Renewed, at(11));
    assert_eq!(due(&claim), None);
    claim.renew_until(Some(at(21)));
    assert_eq!(due(&claim), Some(at(20)));
    claim.renew_until(Some(at(19)));
    assert_eq!(claim.run_out(at(39)), Passed::Lost);
    let mut claim = held(Some(PACE));
    claim.renew_until(Some(at(5)));
    assert_eq!(due(&claim), None);
    claim.renew_until(None);
    assert_eq!(due(&claim), Some(at(10)));
}

#[test]
fn after_a_gap_everything_is_due_but_what_is_on_its_way() {
    let mut claim = held(Some(PACE));
    claim.keep_now(at(2));
    assert_eq!(due(&claim), Some(at(2)));
    claim.send(Verb::Renew, 2, at(2)).unwrap();
    claim.keep_now(at(3));
    claim.answered(2, Answer::Renewed, at(4));
    assert_eq!(due(&claim), Some(at(12)));
}

#[test]
fn a_waiting_claim_heartbeats_until_its_wait_is_over_and_is_then_abandoned() {
    let mut claim = waiting();
    assert_eq!(due(&claim), Some(at(10)));
    assert_eq!(claim.pick().map(|it| it.0), Some(Verb::Heartbeat));
    claim.send(Verb::Heartbeat, 2, at(10)).unwrap();
    claim.answered(
        2,
        Answer::Waiting {
            place: 1,
            left: None,
        },
        at(11),
    );
    assert_eq!(due(&claim), Some(at(20)));
    claim.hurry(at(12));
    assert_eq!(due(&claim), Some(at(12)));
    claim.send(Verb::Heartbeat, 3, at(12)).unwrap();
    claim.hurry(at(13));
    assert_eq!(due(&claim), None, "one is on its way");
    claim.answered(
        3,
        Answer::Waiting {
            place: 1,
            left: None,
        },
        at(14),
    );
    assert_eq!(
        due(&claim),
        Some(at(14)),
        "and cannot tell of what came later"
    );
    assert_eq!(claim.run_out(at(499)), Passed::Nothing);
    assert_eq!(claim.run_out(at(500)), Passed::Abandoned);
    assert!(claim.take_release() && !claim.take_release());
}

#[test]
fn a_grant_that_nobody_takes_is_not_renewed_and_is_abandoned_without_cooldown() {
    let mut claim = waiting().with_min_hold(Some(ms_of(1000)));
    claim.send(Verb::Heartbeat, 2, at(10)).unwrap();
    claim.granted_by_message(TOKEN, 1, at(11));
    claim.answered(2, Answer::Granted(TOKEN), at(12));
    let agenda = claim.agenda();
    assert_eq!((agenda.due, agenda.deadline), (None, Some(at(29))));
    assert_eq!(claim.run_out(at(29)), Passed::Abandoned);
    assert_eq!(claim.cooldown_until(), None);
}

#[test]
fn a_grant_after_a_wait_is_renewed_from_when_its_holder_knows() {
    let mut claim = waiting();
    claim.granted_by_message(TOKEN, 1, at(5));
    assert_eq!(claim.take(at(17)), Some(TOKEN));
    claim.begin_use(at(17));
    // A third of the 12 that are left, so that two renewals may fail.
    assert_eq!(due(&claim), Some(at(21)));
    claim.send(Verb::Renew, 2, at(20)).unwrap();
    claim.failed(2, Outcome::Unknown);
    assert_eq!(due(&claim), Some(at(23)));
    assert_eq!(claim.take(at(30)), None, "its time is over");
}

#[test]
fn what_is_said_before_the_holder_knows_of_the_grant_counts_when_he_does() {
    for (notice, reason) in [
        (Notice::Revoked, LossReason::Revoked),
        (Notice::Gone, LossReason::Gone),
    ] {
        let mut claim = claim(Some(PACE));
        claim.send(Verb::Acquire, 1, at(0)).unwrap();
        claim.notice(notice);
        claim.answered(1, Answer::Granted(TOKEN), at(1));
        assert_eq!(claim.validity(at(1)), Validity::Valid);
        claim.begin_use(at(1));
        let lost = Validity::Ended(Ending::Lost(reason));
        assert_eq!(claim.validity(at(1)), lost);
    }
}

#[test]
fn one_who_may_have_missed_something_asks_once_he_uses_the_claim() {
    let mut claim = claim(Some(PACE));
    claim.send(Verb::Acquire, 1, at(0)).unwrap();
    claim.may_have_missed_notices();
    claim.answered(1, Answer::Granted(TOKEN), at(1));
    assert!(!claim.take_question());
    claim.begin_use(at(1));
    assert!(claim.agenda().verify && claim.take_question() && !claim.take_question());
}

#[test]
fn closing_loses_what_is_used_and_leaves_the_rest_to_who_asked_for_it() {
    let mut unconfirmed = held(Some(PACE));
    unconfirmed.set_confirmed(false);
    assert_eq!(due(&unconfirmed), None);
    let mut asking = claim(Some(PACE));
    asking.send(Verb::Acquire, 1, at(0)).unwrap();
    let mut answered = asking.clone();
    answered.answered(1, Answer::Granted(TOKEN), at(1));
    for mut claim in [unconfirmed, asking, answered] {
        assert_eq!(claim.close(at(2)), Passed::Nothing);
    }
    assert_eq!(held(None).close(at(2)), Passed::Lost);
    assert_eq!(waiting().close(at(2)), Passed::Abandoned);
}
