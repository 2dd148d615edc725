use std::time::{Duration, Instant, SystemTime};

use super::board::{Board, questions};
use super::sample::Totals;
use crate::look::{Lock, Part};

const SECOND: Duration = Duration::from_secs(1);

/// A claim with this many seconds left.
fn holder(claim: &str, left: u64) -> Part {
    Part {
        left_ms: Some(left * 1000),
        state: "held",
        shared: Some(false),
        ..waiter(claim)
    }
}

fn waiter(claim: &str) -> Part {
    Part::new(claim.to_owned(), Some(format!("client:{claim}")), None)
}

fn lock(name: &str, holders: &[Part], waiters: u64) -> Lock {
    Lock {
        name: name.to_owned(),
        kind: Some("fair".to_owned()),
        fence: None,
        since: None,
        holders: holders.to_vec(),
        limit: None,
        waiters: Some(waiters),
        queue: Vec::new(),
        result: None,
    }
}

/// A board with these names on a complete list.
fn board(names: &[&str], now: Instant) -> Board {
    let mut board = Board::new(now);
    list(&mut board, names);
    board
}

fn list(board: &mut Board, names: &[&str]) {
    board.list_begins();
    for name in names {
        board.found((*name).to_owned());
    }
    board.list_ends();
}

fn totals(board: &mut Board, now: Instant) -> Totals {
    board.sample(now, SystemTime::now()).totals
}

#[test]
fn a_claim_that_was_there_at_the_first_look_is_no_grant_and_a_new_one_is() {
    let now = Instant::now();
    let mut board = board(&["name"], now);
    board.looked(lock("name", &[holder("a", 30)], 0), now);
    assert_eq!(totals(&mut board, now), Totals::default());
    board.looked(lock("name", &[holder("b", 30)], 0), now + SECOND);
    let seen = totals(&mut board, now + SECOND);
    assert_eq!((seen.grants, seen.ended, seen.ran_out), (1, 1, 0));
    // A renewal counts as neither.
    board.looked(lock("name", &[holder("b", 30)], 0), now + 2 * SECOND);
    assert_eq!(totals(&mut board, now + 2 * SECOND), seen);
}

#[test]
fn what_holds_a_name_that_was_on_no_list_before_was_granted_since() {
    let now = Instant::now();
    let mut board = board(&[], now);
    list(&mut board, &["name"]);
    board.looked(lock("name", &[holder("a", 30)], 0), now);
    assert_eq!(totals(&mut board, now).grants, 1);
}

#[test]
fn a_lease_ran_out_if_it_was_late_and_was_gone_when_it_was_over() {
    // Seen with this much left, seen again after a while, and gone after another while.
    for (left, again, gap, expected) in [
        (30, 29, 2, 1),
        // It may have been renewed after it was last seen.
        (30, 1, 40, 0),
        // It was gone before its lease would have ended.
        (30, 27, 1, 0),
    ] {
        let now = Instant::now();
        let mut board = board(&["name"], now);
        board.looked(lock("name", &[holder("a", left)], 0), now);
        let later = now + again * SECOND;
        let rest = left - u64::from(again);
        board.looked(lock("name", &[holder("a", rest)], 0), later);
        board.looked(lock("name", &[], 0), later + gap * SECOND);
        let seen = totals(&mut board, later);
        assert_eq!((seen.ended, seen.ran_out), (1, expected), "{again} {gap}");
    }
}

#[test]
fn a_revocation_is_counted_once_and_a_cooldown_is_an_end() {
    let now = Instant::now();
    let mut board = board(&["name"], now);
    board.looked(lock("name", &[holder("a", 30)], 0), now);
    for state in ["revoked", "revoked", "cooldown", "cooldown"] {
        let part = Part {
            state,
            ..holder("a", 20)
        };
        board.looked(lock("name", &[part], 0), now);
    }
    let sample = board.sample(now, SystemTime::now());
    assert_eq!((sample.totals.revoked, sample.totals.ended), (1, 1));
    assert_eq!((sample.holders, sample.locks.len()), (0, 1));
    assert_eq!(sample.locks[0].holders_seen_ms, [None]);
}

#[test]
fn a_wait_is_counted_from_the_queue_to_the_grant_if_both_were_seen() {
    let now = Instant::now();
    let mut board = board(&["name"], now);
    let queue = |claims: &[&str]| -> Vec<Part> { claims.iter().map(|it| waiter(it)).collect() };
    board.looked(lock("name", &[holder("a", 30)], 1), now);
    // It was there at the first look.
    board.queued("name", queue(&["b"]), 100, now);
    board.queued("name", queue(&["b", "c"]), 100, now + SECOND);
    board.looked(lock("name", &[holder("b", 30)], 1), now + 2 * SECOND);
    let sample = board.sample(now, SystemTime::now());
    assert_eq!((sample.waits.seen, sample.totals.grants), (0, 1));
    // It has left the queue, and is not yet seen to hold.
    board.queued("name", queue(&[]), 100, now + 3 * SECOND);
    board.looked(lock("name", &[holder("c", 30)], 0), now + 4 * SECOND);
    let sample = board.sample(now, SystemTime::now());
    assert_eq!((sample.waits.seen, sample.waits.sum_ms), (1, 3000));
    assert_eq!(sample.waits.longest_ms, [None, Some(3000)]);
}

#[test]
fn when_a_claim_came_is_not_known_of_a_queue_whose_end_was_not_seen() {
    let now = Instant::now();
    let mut board = board(&["name"], now);
    board.looked(lock("name", &[holder("a", 30)], 2), now);
    for front in ["b", "c"] {
        board.queued("name", vec![waiter(front)], 1, now);
    }
    board.looked(lock("name", &[holder("c", 30)], 0), now + SECOND);
    assert_eq!(board.sample(now, SystemTime::now()).waits.seen, 0);
}

#[test]
fn a_name_is_forgotten_when_nobody_holds_it_and_no_list_has_it() {
    let now = Instant::now();
    let mut board = board(&["held", "free"], now);
    board.looked(lock("held", &[holder("a", 30)], 0), now);
    board.looked(lock("free", &[], 0), now);
    list(&mut board, &[]);
    assert_eq!(board.turn(10, now + SECOND, &[]), ["held"]);
}

#[test]
fn names_have_their_turn_by_the_time_of_the_last_and_the_crowded_come_first() {
    let now = Instant::now();
    let names = ["a", "b", "c", "d"];
    let mut board = board(&names, now);
    for name in names {
        let waiters = u64::from(name == "c") * 7;
        board.looked(lock(name, &[holder(name, 30)], waiters), now);
    }
    board.tried("a", now);
    // Two requests each.
    assert_eq!(board.turn(4, now + SECOND, &[]), ["b", "c"]);
    assert_eq!(board.turn(100, now + SECOND, &[]), ["b", "c", "d", "a"]);
    assert_eq!(board.turn(100, now, &[]), ["b", "c", "d"]);
    let seen = ["d".to_owned(), "unknown".to_owned()];
    let (first, asked) = board.first(&seen, 100);
    assert_eq!(
        (&first[..], asked),
        (&["d".to_owned(), "c".to_owned()][..], 4)
    );
    assert_eq!(board.turn(100, now + SECOND, &first), ["b", "a"]);
    assert_eq!(board.queues(Some("b"), 100), ["b", "c"]);
    assert_eq!(board.queues(None, 0), [""; 0]);
}

#[test]
fn a_sample_begins_with_the_most_waiters_and_says_how_old_it_is() {
    let now = Instant::now();
    let mut board = board(&["a", "b", "free", "unknown"], now);
    board.looked(lock("a", &[holder("x", 30)], 1), now);
    board.looked(lock("b", &[holder("y", 30)], 2), now + SECOND);
    board.looked(lock("free", &[], 0), now);
    let sample = board.sample(now + 3 * SECOND, SystemTime::now());
    let names: Vec<&str> = sample.locks.iter().map(|row| &*row.lock.name).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!((sample.holders, sample.waiters), (2, 3));
    assert_eq!((sample.load.oldest_ms, sample.load.unknown), (3000, 1));
    let row = serde_json::to_value(&sample.locks[0]).unwrap();
    assert_eq!(
        (&row["name"], &row["looked_ms"]),
        (&"b".into(), &2000.into())
    );
    assert_eq!(row["held_ms"], 2000);
}

#[test]
fn a_rate_is_that_of_the_last_ten_seconds() {
    let now = Instant::now();
    let mut board = board(&["name"], now);
    board.looked(lock("name", &[], 0), now);
    let mut rate = 0.0;
    for second in 1..=40 {
        let at = now + second * SECOND;
        if second <= 20 {
            let claim = second.to_string();
            board.looked(lock("name", &[holder(&claim, 30)], 0), at);
        }
        rate = board.sample(at, SystemTime::now()).per_second.grants;
        if second == 20 {
            assert!((rate - 1.0).abs() < 1e-9, "{rate}");
        }
    }
    assert!(rate.abs() < 1e-9, "{rate}");
}

#[test]
fn each_client_is_asked_for_its_label_once() {
    let of = |claim: &str, owner: &str| Part::new(claim.to_owned(), Some(owner.to_owned()), None);
    let parts = [of("a", "x:1"), of("b", "x:2"), of("c", "y:1")];
    assert_eq!(questions(&parts), 3);
    assert_eq!(questions(&[Part::new("d".to_owned(), None, None)]), 1);
}

#[test]
fn a_board_is_whole_when_each_name_was_asked_about_since_somebody_looks_on() {
    let now = Instant::now();
    let mut board = Board::new(now);
    let is_whole = |board: &mut Board| board.sample(now, SystemTime::now()).load.whole;
    assert!(!is_whole(&mut board));
    board.list_begins();
    board.found("a".to_owned());
    board.looked(lock("a", &[holder("x", 30)], 0), now);
    assert!(!is_whole(&mut board), "more names may follow");
    board.found("theirs".to_owned());
    board.list_ends();
    assert!(!is_whole(&mut board), "one has no answer");
    board.is_no_lock("theirs", now);
    assert!(is_whole(&mut board));
    // What comes later is new, and nothing was missing before.
    list(&mut board, &["a", "theirs", "b"]);
    assert!(is_whole(&mut board));

    board.look_again();
    assert!(!is_whole(&mut board));
    board.looked(lock("a", &[], 0), now);
    board.looked(lock("b", &[holder("y", 30)], 0), now);
    board.is_no_lock("theirs", now);
    assert!(!is_whole(&mut board), "there may be names since the pause");
    list(&mut board, &["b", "c"]);
    assert!(!is_whole(&mut board), "that one has no answer");
    board.looked(lock("c", &[holder("z", 30)], 0), now);
    assert!(is_whole(&mut board));
}
