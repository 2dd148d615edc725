//! A failover by sentinels, with a thousand leases held and a hundred waiting.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{LeaseState, LossReason, Mutex, MutexGuard};
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::patient;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Renewed every few seconds, and not lost on a slow machine.
const TTL: Duration = PATIENCE;
const RENEWALS_PER_TTL: u32 = 18;
const HELD: usize = 1_000;

/// How many of the held leases the replica lacks; waiters wait for half of them.
const UNHEARD: usize = 50;
const WAITERS: usize = 100;

fn name(number: usize) -> String {
    format!("held {number}")
}

fn count(guards: &[MutexGuard], state: LeaseState) -> usize {
    guards.iter().filter(|guard| guard.state() == state).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_of_lost_leases_are_told_and_the_rest_go_on() -> Result<()> {
    let mut watched = Watched::start().await?;
    let settings = || patient().ttl(TTL).renewal_fraction(RENEWALS_PER_TTL);
    let (holder, other) = (
        watched.client(settings()).await?,
        watched.client(settings()).await?,
    );
    let mut guards = Vec::new();
    for number in 0..HELD - UNHEARD {
        guards.push(Mutex::new(&holder, &name(number)).acquire().await?);
    }
    let mut waiters = JoinSet::new();
    for waiter in 0..WAITERS {
        // The last waiters are for leases that the failover will lose.
        let number = HELD - UNHEARD / 2 - WAITERS + waiter;
        if number >= HELD - UNHEARD {
            continue;
        }
        let lock = Mutex::new(&other, &name(number));
        waiters.spawn(async move { anyhow::Ok((number, lock.acquire().await?)) });
    }
    watched.servers()[0].command(&["WAIT", "1", "0"]).await?;
    watched.cut_off(0).await?;
    for number in HELD - UNHEARD..HELD {
        guards.push(Mutex::new(&holder, &name(number)).acquire().await?);
    }
    for number in HELD - UNHEARD..HELD - UNHEARD / 2 {
        let lock = Mutex::new(&other, &name(number));
        waiters.spawn(async move { anyhow::Ok((number, lock.acquire().await?)) });
    }
    let tokens: Vec<_> = guards.iter().map(|guard| guard.fencing_token()).collect();
    watched.kill(0).await?;

    let begun = Instant::now();
    watched.switched_to(1).await?;
    let switched = begun.elapsed();
    let gone = LeaseState::Lost(LossReason::Gone);
    while count(&guards, gone) < UNHEARD {
        ensure!(
            begun.elapsed() < PATIENCE,
            "{} of {UNHEARD} told",
            count(&guards, gone)
        );
        sleep(Duration::from_millis(5)).await;
    }
    let told = begun.elapsed();
    let mut served = Vec::new();
    while served.len() < UNHEARD / 2 {
        let next = timeout(PATIENCE, waiters.join_next()).await?;
        served.push(next.context("nobody waits")???);
    }
    let taken_over = begun.elapsed();
    for (number, guard) in &served {
        ensure!(*number >= HELD - UNHEARD, "{number} was held by another");
        ensure!(guard.fencing_token() > tokens[*number], "a token goes back");
    }
    for guard in &guards[..HELD - UNHEARD] {
        guard.verify().await?;
    }
    let kept = guards.len() - count(&guards, gone);
    ensure!(kept == HELD - UNHEARD, "{kept} kept");
    println!(
        "the sentinels switched after {switched:?}, {UNHEARD} of {HELD} holders were told by {told:?}, and who waited \
         for those held by {taken_over:?}"
    );

    drop(guards);
    while let Some(served) = timeout(PATIENCE, waiters.join_next()).await? {
        let (number, guard) = served??;
        ensure!(guard.fencing_token() > tokens[number], "a token goes back");
    }
    Ok(())
}
