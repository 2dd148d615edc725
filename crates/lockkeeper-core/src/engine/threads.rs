//! What several threads do to one claim at the same time: a test runs them in every order, with the production types
//! and without a server.
//!
//! Each scene begins with a claim whose acquire has been sent, runs threads on it, and then reports what is wrong.
//! Nothing may be wrong, whichever thread came first.

mod stage;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use uuid::Uuid;

use crate::claim::{Claim, Ending, Passed};
use crate::engine::claims::Claims;
use crate::engine::part::Part;
use crate::engine::release::observe_released;
use crate::registry::cohort::Patience;
use crate::seam::observer::LeaseEvent;
use crate::words::agenda::Notice;
use crate::words::answer::{Answer, Verb};
use crate::words::ending::LossReason;
use crate::words::store_error::{Outcome, StoreError};

use stage::{Stage, TOKEN, at, is_end, part};

/// A scene and its name.
pub type Scene = (&'static str, fn());

/// All of them.
pub const SCENES: &[Scene] = &[
    (
        "a grant is told while the answer says to wait",
        granted_while_placed,
    ),
    (
        "a heartbeat finds the grant that a message tells of",
        granted_twice,
    ),
    (
        "a claim is revoked while its grant is answered",
        revoked_while_granted,
    ),
    (
        "a claim is revoked, asked about, run out and released",
        ended_four_times,
    ),
    (
        "the client closes while a grant is told and taken",
        closed_while_granted,
    ),
    (
        "a wait is over while a grant is told and taken",
        over_while_granted,
    ),
    (
        "a client begins to listen while a grant is answered",
        heard_while_granted,
    ),
    (
        "a lease is renewed while messages were missed",
        renewed_while_due,
    ),
    (
        "a name is handed over while the next one gives up",
        handed_over_while_given_up,
    ),
    (
        "an observer is told of a lease by four threads",
        told_by_four_threads,
    ),
];

/// What does not hold: events are reported after the claim is unlocked, so a renewal may be reported behind the end.
pub const UNMET: Scene = (
    "an observer is told of nothing behind the end of a lease",
    told_of_nothing_behind_the_end,
);

/// A bug that was fixed: the answer was applied, then the message, and then the wait overwrote the grant.
fn granted_while_placed() {
    let stage = Stage::set();
    let acquirer = stage.spawn(|it| {
        it.is_answered(
            1,
            Answer::Waiting {
                place: 1,
                left: None,
            },
        );
        it.takes();
    });
    let hub = stage.spawn(Stage::hears_of_the_grant);
    stage.finish([acquirer, hub]);
    let taken = stage.part.claim().is_told() || stage.takes();
    assert!(taken, "the message of the grant was lost");
    stage.finish([]);
}

fn granted_twice() {
    let stage = Stage::set().waits();
    stage.clock.0.store(310, Ordering::Relaxed);
    let renewer = stage.spawn(|it| {
        drop(it.renewer.take_due());
        match it.sends(Verb::Heartbeat, 2) {
            true => it.is_answered(2, Answer::Granted(TOKEN)),
            false => it.part.change(|claim| claim.unsent(at(310))),
        }
    });
    let acquirer = stage.spawn(|it| {
        it.takes();
    });
    let hub = stage.spawn(Stage::hears_of_the_grant);
    stage.finish([renewer, acquirer, hub]);
    assert!(stage.part.claim().is_told() || stage.takes());
    stage.finish([]);
}

fn revoked_while_granted() {
    let stage = Stage::set();
    let acquirer = stage.spawn(|it| {
        it.is_answered(1, Answer::Granted(TOKEN));
        it.begins();
    });
    let hub = stage.spawn(|it| it.hears(Notice::Revoked));
    stage.finish([acquirer, hub]);
    let lost = Some(Ending::Lost(LossReason::Revoked));
    assert_eq!(stage.ending(), lost, "the word was lost");
    let lost = stage
        .told()
        .iter()
        .any(|it| matches!(it, LeaseEvent::Lost { .. }));
    assert!(lost, "nobody was told");
}

fn ended_four_times() {
    let stage = Stage::set().holds();
    stage.clock.0.store(400, Ordering::Relaxed);
    let guard = stage.spawn(|it| {
        it.ends();
        observe_released(&it.part);
    });
    let hub = stage.spawn(|it| it.hears(Notice::Revoked));
    let watchdog = stage.spawn(|it| {
        if it.sends(Verb::Renew, 2) {
            it.is_answered(2, Answer::Gone);
        }
    });
    let late = stage.spawn(|it| {
        it.part.change(|claim| claim.run_out(at(990)));
    });
    stage.finish([guard, hub, watchdog, late]);
    assert!(stage.ending().is_some() && stage.posted() <= 1);
    assert!(stage.requester().claims.is_empty());
}

fn closed_while_granted() {
    let stage = Stage::set().waits();
    let acquirer = stage.spawn(|it| {
        if !it.takes() {
            it.ends();
        }
    });
    let hub = stage.spawn(Stage::hears_of_the_grant);
    let closing = stage.spawn(|it| {
        it.renewer.close();
    });
    stage.finish([acquirer, hub, closing]);
    // Again, after all acquisitions have returned.
    stage.renewer.close();
    stage.finish([]);
    let told = stage.part.claim().is_told();
    assert_eq!(stage.posted(), usize::from(!told), "told: {told}");
    let lost = Some(Ending::Lost(LossReason::ClientClosed));
    assert!(!told || stage.ending() == lost, "{:?}", stage.ending());
}

fn over_while_granted() {
    let stage = Stage::set().waits();
    stage.hears_of_the_grant();
    let acquirer = stage.spawn(|it| {
        it.takes();
    });
    let watchdog = stage.spawn(|it| {
        it.clock.0.store(890, Ordering::Relaxed);
        drop(it.renewer.take_due());
    });
    stage.finish([acquirer, watchdog]);
    // Either one used the grant or the other gave it up: exactly one of them.
    let told = stage.part.claim().is_told();
    let lost = matches!(stage.ending(), Some(Ending::Lost(_)));
    assert!(stage.posted() <= usize::from(!told), "taken and given up");
    assert!(!told || lost || stage.ending().is_none());
}

fn heard_while_granted() {
    let stage = Stage::set();
    let acquirer = stage.spawn(|it| {
        it.is_answered(1, Answer::Granted(TOKEN));
        it.begins();
    });
    let hub = stage.spawn(|it| it.requester().claims.hears(Uuid::from_u128(1)));
    stage.finish([acquirer, hub]);
    assert!(stage.part.change(Claim::take_question), "nobody asks");
    stage.finish([]);
}

fn renewed_while_due() {
    let stage = Stage::set().holds();
    stage.clock.0.store(340, Ordering::Relaxed);
    let watchdog = |request| {
        move |it: &Stage| {
            drop(it.renewer.take_due());
            match it.sends(Verb::Renew, request) {
                true => it.is_answered(request, Answer::Renewed),
                false => it.part.change(|claim| claim.unsent(at(340))),
            }
        }
    };
    let hub = stage.spawn(|it| it.requester().claims.all_due());
    let asking = stage.spawn(|it| {
        if it.sends(Verb::Renew, 4) {
            it.part.change(|claim| claim.failed(4, Outcome::Unknown));
        }
    });
    let threads = [
        stage.spawn(watchdog(2)),
        stage.spawn(watchdog(3)),
        hub,
        asking,
    ];
    stage.finish(threads);
    let claim = stage.part.claim();
    let agenda = claim.agenda();
    assert!(agenda.due.is_some() && agenda.deadline == claim.deadline());
    drop(claim);
    assert_eq!(
        stage.part.change(|claim| claim.run_out(at(340))),
        Passed::Nothing
    );
}

/// Whichever claim the name is handed to, and whether or not that claim still waits, the claim behind it is called in
/// the end.
fn handed_over_while_given_up() {
    let stage = Stage::set().holds();
    let claims = &stage.requester().claims;
    let [next, last] = [2, 3].map(|number| {
        let part = part(number, stage.part.terms, &stage.part.requester);
        assert!(claims.arrive(&part));
        part.change(|claim| claim.wait_locally(true));
        part
    });
    let ends = |part: &Arc<Part>| {
        let now = part.now();
        part.change(|claim| claim.end(now));
    };
    // Neither of them loses its patience.
    let may_ask = |claims: &Claims, part: &Part| {
        let (now, lasts) = (part.now(), part.terms.waiter_ttl);
        let until = now.after(lasts);
        claims
            .may_ask(part, Patience { lasts, until }, now)
            .is_none()
    };
    let guard = stage.spawn(move |it| {
        ends(&it.part);
        let claims = &it.requester().claims;
        if let Some(next) = claims.begin_handover(&it.part) {
            let now = next.now();
            let sent = next.change(|claim| claim.send(Verb::Acquire, 2, now));
            if sent.is_ok() {
                let _ = it.requester().told(&next, 2, Ok(Answer::Granted(TOKEN)));
            }
            claims.end_handover(&it.part);
        }
    });
    let leaving = Arc::clone(&next);
    let waiter = stage.spawn(move |it| {
        let claims = &it.requester().claims;
        if !may_ask(claims, &leaving) {
            claims.give_up(&leaving);
        }
        ends(&leaving);
    });
    stage.finish([guard, waiter]);
    assert!(claims.is_in_step(&next), "the index is out of step");
    // If the name was handed to the claim that gave up, that claim hands it on.
    let handed = claims.begin_handover(&next);
    if handed.is_some() {
        claims.end_handover(&next);
    }
    assert!(may_ask(claims, &last), "the last one waits for nobody");
}

/// A lease that is granted, renewed with and without an answer, revoked and released: [`Stage::finish`] checks the order in
/// which this is told.
fn told_by_four_threads() {
    let stage = Stage::set();
    let holder = stage.spawn(|it| {
        it.is_answered(1, Answer::Granted(TOKEN));
        it.begins();
        it.ends();
        observe_released(&it.part);
    });
    let watchdog = |request, answers: bool| {
        move |it: &Stage| {
            // Not before the claim is granted.
            if (0..5).any(|_| it.sends(Verb::Renew, request)) {
                let silence = || StoreError::unknown("no answer in time");
                let answer = answers.then_some(Answer::Renewed).ok_or_else(silence);
                // The claim records the outcome.
                let _ = it.requester().told(&it.part, request, answer);
            }
        }
    };
    let threads = [
        holder,
        stage.spawn(watchdog(2, true)),
        stage.spawn(watchdog(3, false)),
        stage.spawn(|it| it.hears(Notice::Revoked)),
    ];
    stage.finish(threads);
    let told = stage.told();
    assert!(told.iter().any(is_end), "no end is told: {told:?}");
}

fn told_of_nothing_behind_the_end() {
    let stage = Stage::set().holds();
    let watchdog = stage.spawn(|it| {
        if it.sends(Verb::Renew, 2) {
            it.is_answered(2, Answer::Renewed);
        }
    });
    let hub = stage.spawn(|it| it.hears(Notice::Revoked));
    stage.finish([watchdog, hub]);
    let told = stage.told();
    let end = told.last().is_some_and(is_end);
    assert!(end, "told of more behind the end: {told:?}");
}
