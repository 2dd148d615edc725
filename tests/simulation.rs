//! The deterministic simulation: thousands of histories without a violation, the same seed the same history in every
//! process, and defects of the engine that it must find.

use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lockkeeper_testkit::mutants::engine::{self, Mutant};
use lockkeeper_testkit::mutants::{histories, lua};
use lockkeeper_testkit::simulation::{
    Beyond, FAMILY, Fairs, Mutexes, Outcome, Reentrants, RwLocks, Species, run, run_beyond,
    run_family,
};

/// Runs the histories of so many seeds on all cores.
fn keep_every_rule<S: Species>(first: u64, number: u64) {
    keep_every_rule_of(S::NAME, first, number, |seed| run::<S>(seed, false));
}

fn keep_every_rule_of(
    kind: &str,
    first: u64,
    number: u64,
    run: impl Fn(u64) -> std::io::Result<Outcome> + Sync,
) {
    let next = AtomicU64::new(first);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + number {
                break;
            }
            let outcome = run(seed).unwrap();
            assert_eq!(
                outcome.violation, None,
                "to repeat it: cargo xtask simulate --kind {kind} --seed {seed} --histories 1 --verbose"
            );
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work();
        other.join().unwrap();
    });
    println!("proved {number} histories");
}

#[test]
fn histories_of_the_mutex_keep_every_rule() {
    keep_every_rule::<Mutexes>(1, 150);
}

#[test]
fn histories_of_the_re_entrant_lock_keep_every_rule() {
    keep_every_rule::<Reentrants>(1, 100);
}

#[test]
fn histories_of_the_fair_lock_keep_every_rule() {
    keep_every_rule::<Fairs>(1, 50);
}

#[test]
fn histories_of_the_read_write_lock_keep_every_rule() {
    keep_every_rule::<RwLocks>(1, 40);
}

#[test]
fn histories_of_the_whole_family_keep_every_rule() {
    keep_every_rule_of(FAMILY, 1, 10, |seed| run_family(seed, false));
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn ten_thousand_histories_of_the_mutex_keep_every_rule() {
    keep_every_rule::<Mutexes>(1, 10_000);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn six_thousand_histories_of_the_re_entrant_lock_keep_every_rule() {
    keep_every_rule::<Reentrants>(1, 6_000);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn two_thousand_histories_of_the_fair_lock_keep_every_rule() {
    keep_every_rule::<Fairs>(1, 2_000);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn fifteen_hundred_histories_of_the_read_write_lock_keep_every_rule() {
    keep_every_rule::<RwLocks>(1, 1_500);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn three_hundred_histories_of_the_whole_family_keep_every_rule() {
    keep_every_rule_of(FAMILY, 1, 300, |seed| run_family(seed, false));
}

#[test]
fn a_seed_gives_the_same_history_in_two_processes() {
    give_the_same_in_two_processes("6");
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn sixty_seeds_give_the_same_histories_in_two_processes() {
    give_the_same_in_two_processes("60");
}

fn give_the_same_in_two_processes(histories: &str) {
    let hash = || {
        let output = Command::new(env!("CARGO_BIN_EXE_simulate"))
            .args(["--seed", "1", "--histories", histories, "--threads", "1"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_once("hash ").unwrap().1.to_owned()
    };
    let (one, other) = (hash(), hash());
    assert_eq!(one, other);
    assert_eq!(one.trim().len(), 16);
}

#[test]
fn a_history_that_fails_is_shown_with_its_end_and_the_command_that_repeats_it() {
    let simulate = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_simulate"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let report = simulate(&["--mutant", "BelieveWhileLeaving", "--threads", "1"]);
    let lines: Vec<_> = report.lines().collect();
    let [violation, before @ .., repeat] = &lines[..] else {
        panic!("{report}");
    };
    assert!(violation.contains(": "), "{violation}");
    assert!((1..=60).contains(&before.len()), "{} lines", before.len());
    let command = repeat.strip_prefix("to repeat it: cargo xtask simulate ");
    let arguments: Vec<_> = command.unwrap().split(' ').collect();
    assert!(arguments.ends_with(&["--mutant", "BelieveWhileLeaving"]));
    assert_eq!(simulate(&arguments), report);
}

/// The simulation finds the defect, and without it the very same history breaks no rule.
fn is_caught(mutant: Mutant) {
    let broken = histories::find(mutant).unwrap();
    let broken = broken.unwrap_or_else(|| panic!("{mutant:?} was not found"));
    println!("{mutant:?}: {broken:?}\nproved 1 hunts of mutants");
    assert_eq!(broken.without, None);
}

/// A test for each mutant; no mutant may be without one.
macro_rules! caught {
    ($($(#[$attribute:meta])* $test:ident: $mutant:ident,)*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $test() {
                is_caught(Mutant::$mutant);
            }
        )*

        #[test]
        fn every_defect_has_its_test() {
            assert_eq!(Mutant::ALL, [$(Mutant::$mutant),*]);
        }
    };
}

caught! {
    #[ignore = "long: `cargo xtask prove` runs it"]
    a_deadline_counted_from_the_answer_is_found: DeadlineFromAnswer,
    #[ignore = "long: `cargo xtask prove` runs it"]
    a_missing_margin_is_found: NoMargin,
    belief_while_leaving_is_found: BelieveWhileLeaving,
    #[ignore = "long: `cargo xtask prove` runs it"]
    a_leave_without_mark_is_found: LeaveUnmarked,
    a_missing_answer_taken_for_no_is_found: UnknownIsNo,
    #[ignore = "long: `cargo xtask prove` runs it"]
    requests_abreast_are_found: RequestsAbreast,
    a_script_sent_again_after_the_leave_is_found: ResendAfterLeave,
    a_claim_that_lives_twice_is_found: ReuseClaim,
    #[ignore = "long: `cargo xtask prove` runs it"]
    waiters_deaf_to_a_gap_are_found: DeafToReconnect,
    a_claim_given_up_without_leave_is_found: DropWithoutLeave,
    #[ignore = "long: `cargo xtask prove` runs it"]
    a_grant_counted_from_the_last_send_is_found: GrantFromLastSend,
    #[ignore = "long: `cargo xtask prove` runs it"]
    a_grant_counted_from_its_message_is_found: GrantFromMessage,
    #[ignore = "long: `cargo xtask prove` runs it"]
    a_hint_lost_behind_a_heartbeat_is_found: HintBehindHeartbeatLost,
    #[ignore = "long: `cargo xtask prove` runs it"]
    a_subscription_that_nobody_follows_up_is_found: NoHeartbeatAfterSubscribing,
    #[ignore = "long: `cargo xtask prove` runs it"]
    a_waiter_without_heartbeats_is_found: WaiterNeverHeartbeats,
    #[ignore = "long: `cargo xtask prove` runs it"]
    waiters_deaf_to_grants_are_found: DeafToGrants,
    #[ignore = "long: `cargo xtask prove` runs it"]
    belief_while_another_mode_takes_the_place_is_found: BelieveWhileConverting,
    a_release_of_several_that_stops_at_the_first_error_is_found: ReleaseStopsAtFirstError,
    a_loss_of_one_that_keeps_the_rest_is_found: LossOfOneKeepsTheRest,
}

/// The rules that the histories of the whole family find defects by, and the first seeds.
const FOUND_IN_FAMILIES: [(Mutant, &str, u64); 14] = [
    (Mutant::BelieveWhileLeaving, "two ends of a lease", 1),
    (Mutant::LeaveUnmarked, "back after its leave", 4),
    (Mutant::UnknownIsNo, "a claim nobody wants", 2),
    (Mutant::ResendAfterLeave, "a claim lives once", 8),
    (Mutant::ReuseClaim, "one request at a time", 1),
    (Mutant::DeafToReconnect, "deaf to a gap", 19),
    (Mutant::DropWithoutLeave, "a claim nobody wants", 2),
    (Mutant::WaiterNeverHeartbeats, "deaf to a gap", 5),
    (Mutant::DeafToGrants, "a grant nobody heard of", 7),
    (Mutant::DeadlineFromAnswer, "two holders", 644),
    (Mutant::RequestsAbreast, "one request at a time", 17),
    (Mutant::QuorumOfAnswers, "a grant without a majority", 4),
    (Mutant::ReleaseStopsAtFirstError, "a claim nobody wants", 2),
    (Mutant::LossOfOneKeepsTheRest, "belief after closing", 7),
];

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn defects_are_found_in_histories_of_the_whole_family_and_without_them_every_rule_is_kept() {
    for (mutant, rule, seed) in FOUND_IN_FAMILIES {
        let broken = engine::with(mutant, || run_family(seed, false)).unwrap();
        let violation = broken.violation.map(|violation| violation.rule);
        assert_eq!(violation, Some(rule), "{mutant:?}");
        assert_eq!(run_family(seed, false).unwrap().violation, None);
    }
}

#[test]
fn the_same_seed_gives_the_same_history_of_the_whole_family() {
    give_the_same_histories_of_the_whole_family(4);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn twenty_seeds_give_the_same_histories_of_the_whole_family() {
    give_the_same_histories_of_the_whole_family(20);
}

fn give_the_same_histories_of_the_whole_family(seeds: u64) {
    for seed in 1..=seeds {
        let (once, again) = (run_family(seed, true), run_family(seed, true));
        let (once, again) = (once.unwrap(), again.unwrap());
        assert_eq!(once.lines, again.lines, "seed {seed}");
        assert_eq!(once.hash, again.hash, "seed {seed}");
        assert!(once.grants > 0, "seed {seed}");
    }
}

/// Each mistake shows in a history, and without it the very same history breaks no rule.
fn are_caught<S: Species>(mutants: &[lua::Mutant]) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let broken = histories::find_patched::<S>(mutant).unwrap();
            let broken = broken.unwrap_or_else(|| panic!("{} was not found", mutant.name));
            println!("{}: {broken:?}", mutant.name);
            assert_eq!(broken.without, None);
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work();
        other.join().unwrap();
    });
    println!("proved {} hunts of mutants", mutants.len());
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_mistake_in_a_script_of_the_fair_lock_is_found() {
    are_caught::<Fairs>(lua::FAIR);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_mistake_in_a_script_of_the_read_write_lock_is_found() {
    are_caught::<RwLocks>(lua::RWLOCK);
}

/// How many histories a counter-example may stay hidden in.
const PATIENCE: u64 = 1_000;

/// The counter-examples of the guarantees, by their kinds and seeds: each the first history in which it breaks its rule.
const COUNTER_EXAMPLES: [(Beyond, &str, u64); 9] = [
    (Beyond::LostWrites, Mutexes::NAME, 6),
    (Beyond::ReturnedHold, RwLocks::NAME, 33),
    (Beyond::ClockBehind, Mutexes::NAME, 1),
    (Beyond::ClockAhead, Mutexes::NAME, 3),
    (Beyond::DeletedKey, Mutexes::NAME, 3),
    (Beyond::Force, Mutexes::NAME, 1),
    (Beyond::LateWrite, Mutexes::NAME, 3),
    (Beyond::Order, Mutexes::NAME, 1),
    (Beyond::Silence, Fairs::NAME, 1),
];

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn what_is_beyond_the_guarantees_has_a_counter_example() {
    let page = include_str!("../docs/guarantees.md");
    for (beyond, kind, seed) in COUNTER_EXAMPLES {
        let run = |seed| match kind {
            Fairs::NAME => run_beyond::<Fairs>(seed, false, beyond),
            RwLocks::NAME => run_beyond::<RwLocks>(seed, false, beyond),
            _ => run_beyond::<Mutexes>(seed, false, beyond),
        };
        let first = (1..=PATIENCE).find(|&seed| {
            let violation = run(seed).unwrap().violation;
            violation.is_some_and(|violation| violation.rule == beyond.breaks())
        });
        assert_eq!(first, Some(seed), "{beyond:?}");
        let command = format!("--kind {kind} --beyond {} --seed {seed}`", beyond.name());
        assert!(page.contains(&command), "the page does not say {command}");
    }
    assert_eq!(COUNTER_EXAMPLES.map(|(beyond, ..)| beyond), Beyond::ALL);
}
