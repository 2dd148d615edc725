//! Tests threads that use one claim at the same time: ten thousand interleavings of each scene, in `cargo xtask prove` a hundred
//! thousand of a third of the scenes; `cargo xtask test` does not build this. Races that were once fixed must be found when they are put back.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use lockkeeper_testkit::third;
use lockkeeper_threads::mutants::{self, Mutant};
use lockkeeper_threads::threads::{SCENES, Scene, UNMET};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner};

const SEED: u64 = 1;

/// Runs a scene in this many interleavings, which the seed determines.
fn run(scene: fn(), orders: usize) {
    let scheduler = RandomScheduler::new_from_seed(SEED, orders);
    Runner::new(scheduler, Config::new()).run(scene);
}

/// Runs scenes, spread over the cores.
fn run_all(scenes: &[Scene], orders: usize) {
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((name, scene)) = scenes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    println!("{orders} orders: {name}");
                    run(*scene, orders);
                }
            });
        }
    });
    println!("proved {} orders of threads", orders * scenes.len());
}

#[test]
fn no_order_of_threads_breaks_a_rule() {
    run_all(SCENES, 10_000);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn no_order_of_threads_breaks_a_rule_in_a_hundred_thousand() {
    run_all(&third::of(SCENES.to_vec()), 100_000);
}

/// A rule that does not hold yet. When it does, it becomes one of the scenes.
#[test]
#[should_panic(expected = "told of more behind the end")]
fn observer_is_told_of_nothing_behind_the_end_of_a_lease() {
    run(UNMET.1, 10_000);
}

#[test]
#[ignore = "long: `cargo xtask prove` runs it"]
fn every_race_that_was_mended_is_found() {
    for mutant in Mutant::OF_THREADS {
        let hunts = [100, 10_000].into_iter();
        let mut hunts = hunts.flat_map(|orders| SCENES.iter().map(move |scene| (orders, scene)));
        let found = hunts.find(|(orders, (_, scene))| {
            let hunt = || mutants::with(mutant, || run(*scene, *orders));
            catch_unwind(AssertUnwindSafe(hunt)).is_err()
        });
        let (_, (scene, _)) = found.unwrap_or_else(|| panic!("not found: {}", mutant.what()));
        println!("{} Found when {scene}.", mutant.what());
    }
    println!("proved {} mutants", Mutant::OF_THREADS.len());
}
