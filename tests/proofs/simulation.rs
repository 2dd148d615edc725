//! The deterministic simulation: thousands of histories without a violation, the same history from the same seed in every
//! process, and mistakes in the engine that it must find.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_testkit::mutants::engine::{self, Mutant};
use lockkeeper_testkit::mutants::{histories, lua};
use lockkeeper_testkit::simulation::net::{self, Behaviour};
use lockkeeper_testkit::simulation::{Beyond, Options, Outcome, Violation, Workload, run};
use lockkeeper_testkit::third;
use parking_lot::Mutex;

fn history(workload: Workload, seed: u64) -> Outcome {
    run(workload, seed, Options::default()).unwrap()
}

/// Runs the histories of this many seeds, or of a third of them, on all cores. The first ones must also be those that the nets
/// expect.
fn keep_every_rule(workload: Workload, number: u64) {
    let seeds = third::of_seeds(number);
    let number = seeds.end() + 1 - seeds.start();
    let (seeds, hashes) = (Mutex::new(seeds), Mutex::new(BTreeSet::new()));
    let recorded = Mutex::new(BTreeMap::new());
    let next = || seeds.lock().next();
    let work = || {
        while let Some(seed) = next() {
            let record = seed <= net::histories(workload);
            let options = Options {
                record,
                ..Options::default()
            };
            let outcome = run(workload, seed, options).unwrap();
            assert_eq!(
                outcome.violation,
                None,
                "to repeat it: cargo xtask simulate --kind {} --seed {seed} --histories 1 --verbose",
                workload.name()
            );
            assert!(outcome.requests > 0, "seed {seed}");
            hashes.lock().insert(outcome.hash);
            if record {
                recorded.lock().insert(seed, outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work();
        other.join().unwrap();
    });
    println!("proved {number} histories");
    assert_eq!(u64::try_from(hashes.lock().len()), Ok(number));
    let recorded: Vec<_> = recorded.into_inner().into_values().collect();
    if recorded.is_empty() {
        // Another third has them.
        return;
    }
    let differences = Behaviour::of(workload, &recorded).differences(None);
    let differences: Vec<_> = differences.iter().map(ToString::to_string).collect();
    assert!(
        differences.is_empty(),
        "to see the calls: cargo xtask simulate --net\n{}",
        differences.join("\n")
    );
}

/// Defines, for each workload, a test of some histories, and of more for `cargo xtask prove`.
macro_rules! histories {
    ($($workload:ident: $few:ident $number:literal, $many:ident $larger:literal;)*) => {$(
        #[test]
        fn $few() {
            keep_every_rule(Workload::$workload, $number);
        }

        #[test]
        #[ignore = "long: `cargo xtask prove` runs it"]
        fn $many() {
            keep_every_rule(Workload::$workload, $larger);
        }
    )*};
}

histories! {
    Mutex: histories_of_the_mutex_keep_every_rule 150,
        ten_thousand_histories_of_the_mutex_keep_every_rule 10_000;
    Reentrant: histories_of_the_re_entrant_lock_keep_every_rule 100,
        six_thousand_histories_of_the_re_entrant_lock_keep_every_rule 6_000;
    Fair: histories_of_the_fair_lock_keep_every_rule 50,
        two_thousand_histories_of_the_fair_lock_keep_every_rule 2_000;
    RwLock: histories_of_the_read_write_lock_keep_every_rule 40,
        fifteen_hundred_histories_of_the_read_write_lock_keep_every_rule 1_500;
    Semaphore: histories_of_the_semaphore_keep_every_rule 40,
        fifteen_hundred_histories_of_the_semaphore_keep_every_rule 1_500;
    Election: histories_of_elections_keep_every_rule 40,
        fifteen_hundred_histories_of_elections_keep_every_rule 1_500;
    Once: histories_of_work_that_is_done_once_keep_every_rule 60,
        two_thousand_histories_of_work_that_is_done_once_keep_every_rule 2_000;
    Latch: histories_of_latches_keep_every_rule 60,
        two_thousand_histories_of_latches_keep_every_rule 2_000;
    Redlock: histories_of_the_redlock_keep_every_rule 10,
        three_hundred_histories_of_the_redlock_keep_every_rule 300;
    Mixed: histories_of_all_kinds_together_keep_every_rule 10,
        three_hundred_histories_of_all_kinds_together_keep_every_rule 300;
}

/// A first request that asks for a free name only, or one that can wait, and a release that tells somebody, or nobody: whichever is
/// chosen, nothing else changes.
#[test]
fn whatever_a_client_expects_of_a_name_every_rule_holds() {
    for workload in [
        Workload::Mutex,
        Workload::Reentrant,
        Workload::Fair,
        Workload::RwLock,
        Workload::Semaphore,
        Workload::Redlock,
        Workload::Mixed,
    ] {
        for seed in 1..=8 {
            let outcome = engine::with(Mutant::NoisyAdvice, || history(workload, seed));
            assert_eq!(outcome.violation, None, "{} {seed}", workload.name());
        }
    }
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
    let report = simulate(&["--mutant", "ValidWhileReleasing", "--threads", "1"]);
    let lines: Vec<_> = report.lines().collect();
    let [violation, before @ .., repeat] = &lines[..] else {
        panic!("{report}");
    };
    assert!(violation.contains(": "), "{violation}");
    assert!((1..=60).contains(&before.len()), "{} lines", before.len());
    let command = repeat.strip_prefix("to repeat it: cargo xtask simulate ");
    let arguments: Vec<_> = command.unwrap().split(' ').collect();
    assert!(arguments.ends_with(&["--mutant", "ValidWhileReleasing"]));
    assert_eq!(simulate(&arguments), report);
}

/// Checks that the mistake shows in a history, and that the same history without it breaks no rule.
fn is_caught(broken: std::io::Result<Option<histories::Broken>>, mutant: Mutant) -> Violation {
    let broken = broken.unwrap();
    let broken = broken.unwrap_or_else(|| panic!("{mutant:?} was not found"));
    println!("{mutant:?}: {broken:?}\nproved 1 hunts of mutants");
    assert_eq!(broken.without, None);
    broken.violation
}

/// Defines a test for each mutant; every mutant must have one.
macro_rules! caught {
    ($($(#[$attribute:meta])* $test:ident: $mutant:ident,)*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $test() {
                is_caught(histories::find(Mutant::$mutant), Mutant::$mutant);
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
    validity_while_releasing_is_found: ValidWhileReleasing,
    #[ignore = "long: `cargo xtask prove` runs it"]
    a_release_without_tombstone_is_found: ReleaseWithoutTombstone,
    a_missing_answer_taken_for_no_is_found: UnknownIsNo,
    #[ignore = "long: `cargo xtask prove` runs it"]
    requests_abreast_are_found: RequestsAbreast,
    a_script_sent_again_after_the_release_is_found: ResendAfterRelease,
    a_claim_that_lives_twice_is_found: ReuseClaim,
    #[ignore = "long: `cargo xtask prove` runs it"]
    waiters_deaf_to_a_gap_are_found: DeafToReconnect,
    a_claim_given_up_without_release_is_found: DropWithoutRelease,
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
    validity_while_another_mode_takes_the_place_is_found: ValidWhileConverting,
    a_release_of_several_that_stops_at_the_first_error_is_found: ReleaseStopsAtFirstError,
    a_loss_of_one_that_keeps_the_rest_is_found: LossOfOneKeepsTheRest,
    #[ignore = "long: `cargo xtask prove` runs it"]
    a_client_that_keeps_a_name_to_itself_is_found: EndlessCohort,
}

/// The same for mistakes in locks over several servers, in the histories of a Redlock.
fn is_caught_in_a_redlock(mutant: Mutant) -> &'static str {
    is_caught(histories::find_in(Workload::Redlock, mutant), mutant).rule
}

#[test]
fn a_claim_that_a_redlock_uses_again_in_the_next_round_is_found() {
    is_caught_in_a_redlock(Mutant::ReuseClaim);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn a_write_back_that_counts_where_the_claim_is_gone_is_found() {
    let rule = is_caught_in_a_redlock(Mutant::GoneWriteBackCounts);
    assert_eq!(rule, "a grant without a majority");
}

#[test]
fn unequal_tokens_that_are_not_written_back_are_found() {
    let rule = is_caught_in_a_redlock(Mutant::UnequalTokensAgree);
    assert_eq!(rule, "a grant without a majority");
}

#[test]
fn a_quorum_of_those_that_answered_is_found() {
    let rule = is_caught_in_a_redlock(Mutant::QuorumOfAnswers);
    assert_eq!(rule, "a grant without a majority");
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn a_release_of_a_redlock_that_stops_at_the_first_error_is_found() {
    let rule = is_caught_in_a_redlock(Mutant::ReleaseStopsAtFirstError);
    assert_eq!(rule, "a claim nobody wants");
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn a_leader_that_makes_itself_known_only_once_is_found() {
    let mutant = Mutant::ProclaimedOnce;
    is_caught(histories::find_in(Workload::Election, mutant), mutant);
}

/// The rules by which the histories of mixed workloads find mistakes.
const FOUND_IN_MIXED: [(Mutant, &str); 14] = [
    (Mutant::ValidWhileReleasing, "two ends of a lease"),
    (Mutant::ReleaseWithoutTombstone, "back after its release"),
    (Mutant::UnknownIsNo, "a claim nobody wants"),
    (Mutant::ResendAfterRelease, "a claim lives once"),
    (Mutant::ReuseClaim, "one request at a time"),
    (Mutant::DeafToReconnect, "deaf to a gap"),
    (Mutant::DropWithoutRelease, "a claim nobody wants"),
    (Mutant::WaiterNeverHeartbeats, "an error without cause"),
    (Mutant::DeafToGrants, "a grant nobody heard of"),
    (Mutant::DeadlineFromAnswer, "two holders"),
    (Mutant::RequestsAbreast, "one request at a time"),
    (Mutant::QuorumOfAnswers, "a grant without a majority"),
    (Mutant::ReleaseStopsAtFirstError, "a claim nobody wants"),
    (Mutant::LossOfOneKeepsTheRest, "an error without cause"),
];

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn defects_are_found_in_histories_of_all_kinds_together_and_without_them_every_rule_is_kept() {
    for (mutant, rule) in FOUND_IN_MIXED {
        let breaks = |&seed: &u64| {
            let broken = engine::with(mutant, || history(Workload::Mixed, seed));
            broken
                .violation
                .is_some_and(|violation| violation.rule == rule)
        };
        let seed = (1..=PATIENCE).find(breaks);
        let seed = seed.unwrap_or_else(|| panic!("{mutant:?} breaks no {rule:?}"));
        println!("{mutant:?}: {rule:?}, seed {seed}\nproved 1 hunts of mutants");
        assert_eq!(history(Workload::Mixed, seed).violation, None);
    }
}

#[test]
fn the_same_seed_gives_the_same_history_over_several_servers() {
    give_the_same_histories(Workload::Mixed, 1);
    give_the_same_histories(Workload::Redlock, 2);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn many_seeds_give_the_same_histories_over_several_servers() {
    give_the_same_histories(Workload::Mixed, 20);
    give_the_same_histories(Workload::Redlock, 30);
}

fn give_the_same_histories(workload: Workload, seeds: u64) {
    for seed in 1..=seeds {
        let options = Options {
            keep_lines: true,
            ..Options::default()
        };
        let [once, again] = [(), ()].map(|()| run(workload, seed, options.clone()).unwrap());
        assert_eq!(once.lines, again.lines, "seed {seed}");
        assert_eq!(once.hash, again.hash, "seed {seed}");
        assert!(once.events > 0 && once.requests > 0, "seed {seed}");
    }
}

/// Checks that each mistake shows in a history, and that the same history without it breaks no rule.
fn are_caught(workload: Workload, mutants: &[lua::Mutant]) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let broken = histories::find_patched(workload, mutant).unwrap();
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

/// Defines, for each workload, a test that its histories find every mistake in its scripts.
macro_rules! mistakes {
    ($($workload:ident $mutants:ident: $name:ident;)*) => {$(
        #[test]
        #[ignore = "long: `cargo xtask prove` runs it"]
        fn $name() {
            are_caught(Workload::$workload, lua::$mutants);
        }
    )*};
}

mistakes! {
    Fair FAIR: every_mistake_in_a_script_of_the_fair_lock_is_found;
    RwLock RWLOCK: every_mistake_in_a_script_of_the_read_write_lock_is_found;
    Semaphore SEMAPHORE: every_mistake_in_a_script_of_the_semaphore_is_found;
    Election ELECTION: every_mistake_in_a_script_of_an_election_is_found;
    Once ONCE: every_mistake_in_a_script_of_work_that_is_done_once_is_found;
    Latch LATCH: every_mistake_in_a_script_of_a_latch_is_found;
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn waiters_for_a_latch_that_are_deaf_to_a_gap_are_found() {
    let mutant = Mutant::DeafToReconnect;
    let violation = is_caught(histories::find_in(Workload::Latch, mutant), mutant);
    assert_eq!(violation.rule, "deaf to a gap");
}

/// The number of histories within which a defect of a mixed workload, or a counter-example, must show.
const PATIENCE: u64 = 1_000;

/// The counter-examples of the guarantees, each with the workload in whose histories it shows.
const COUNTER_EXAMPLES: [(Beyond, Workload); 8] = [
    (Beyond::LostWrites, Workload::Mutex),
    (Beyond::ReturnedHold, Workload::RwLock),
    (Beyond::ClockBehind, Workload::Mutex),
    (Beyond::ClockAhead, Workload::Mutex),
    (Beyond::DeletedKey, Workload::Mutex),
    (Beyond::Force, Workload::Mutex),
    (Beyond::LateWrite, Workload::Mutex),
    (Beyond::Silence, Workload::Fair),
];

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn what_is_beyond_the_guarantees_has_a_counter_example() {
    let page = include_str!("../../docs/guarantees.md");
    for (beyond, workload) in COUNTER_EXAMPLES {
        let breaks = |&seed: &u64| {
            let options = Options {
                beyond: Some(beyond),
                ..Options::default()
            };
            let violation = run(workload, seed, options).unwrap().violation;
            violation.is_some_and(|violation| violation.rule == beyond.breaks())
        };
        let seed = (1..=PATIENCE).find(breaks);
        assert!(seed.is_some(), "{beyond:?} breaks nothing");
        let command = format!("--kind {} --beyond {}`", workload.name(), beyond.name());
        assert!(page.contains(&command), "the page does not say {command}");
    }
    assert_eq!(COUNTER_EXAMPLES.map(|(beyond, ..)| beyond), Beyond::ALL);
}
