//! Mistakes that others have made with this algorithm, repeated on purpose: each breaks a rule that holds without it.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_lua::{lock, redlock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::mutants::engine::{self, Mutant};
use lockkeeper_tests::majority::{MAIN, Process, Servers, TTL};
use tokio::runtime::Builder;
use tokio::time::sleep;

/// Five servers, and two processes with their own networks.
struct World {
    servers: Servers,
    processes: [Process; 2],
}

impl World {
    fn new() -> Result<Self> {
        let servers = Servers::five();
        for (place, server) in servers.0.iter().enumerate() {
            // So far apart that no two servers draw the same token, nor follow a proposal.
            server.step_clock(i64::try_from(place)? * 2000);
        }
        let processes = [servers.process()?, servers.process()?];
        Ok(Self { servers, processes })
    }
}

/// Each half of a divided network has its own servers.
async fn no_two_hold_when_the_network_is_divided() -> Result<()> {
    let world = World::new()?;
    for place in 0..5 {
        world.processes[usize::from(place < 3)].links[place].silence("");
    }
    let one = world.processes[0].lock.try_acquire().await.ok().flatten();
    let other = world.processes[1].lock.try_acquire().await.ok().flatten();
    ensure!(one.is_none() || other.is_none(), "{one:?} and {other:?}");
    ensure!(one.is_some() || other.is_some(), "one half has three");
    Ok(())
}

/// Between the grants and the write-backs the claims vanish from a majority, which others then take.
async fn no_two_hold_when_claims_vanish_before_the_write_back() -> Result<()> {
    let world = World::new()?;
    // With its first grant a client subscribes and then asks once more whether it holds; this client has done that.
    world.processes[0].lock.acquire().await?.release().await?;
    // The clocks pass the token that was written back.
    sleep(TTL).await;
    let slow = &world.processes[0].links[4];
    slow.slow_down(&redlock::ACQUIRE, Duration::from_millis(5));
    let before = slow.sent(&redlock::ACQUIRE);
    let asking = tokio::spawn(world.processes[0].lock.try_acquire().into_future());
    slow.wait_sent(&redlock::ACQUIRE, before + 1).await;
    for server in &world.servers.0[..3] {
        server.execute(&["DEL", MAIN])?;
    }
    let one = asking.await?.ok().flatten();
    let other = world.processes[1].lock.try_acquire().await?;
    ensure!(
        one.is_none_or(|one| one.ensure_held().is_err()) || other.is_none(),
        "both hold"
    );
    Ok(())
}

/// The next process cannot reach the server with the largest token.
async fn tokens_increase_from_one_majority_to_the_next() -> Result<()> {
    let world = World::new()?;
    let one = world.processes[0].lock.acquire().await?;
    let token = one.fencing_token();
    one.release().await?;
    world.processes[1].links[4].silence("");
    let other = world.processes[1].lock.acquire().await?;
    ensure!(other.fencing_token() > token, "{other:?} after {token}");
    Ok(())
}

/// The releases of a failed round arrive after the next round was granted.
async fn a_late_release_of_one_round_does_not_end_the_next() -> Result<()> {
    let world = World::new()?;
    for link in &world.processes[0].links[..3] {
        link.plan(&redlock::ACQUIRE, Fate::LoseReply);
        link.plan(&lock::RELEASE, Fate::Keep);
    }
    let one = world.processes[0].lock.acquire().await?;
    for (link, server) in world.processes[0].links.iter().zip(&world.servers.0) {
        link.deliver(server).await;
    }
    let other = world.processes[1].lock.try_acquire().await?;
    ensure!(one.ensure_held().is_err() || other.is_none(), "both hold");
    Ok(())
}

/// One server does not answer the release.
async fn a_release_frees_every_server_that_answers() -> Result<()> {
    let world = World::new()?;
    let guard = world.processes[0].lock.acquire().await?;
    world.processes[0].links[0].plan(&lock::DROP, Fate::NotSent);
    let _ = guard.release().await;
    sleep(Duration::from_secs(1)).await;
    let held = |server: &&MemoryStore| server.keys().iter().any(|key| key == MAIN);
    let held = world.servers.0.iter().filter(held).count();
    ensure!(held == 0, "{held} servers are still held");
    Ok(())
}

/// Checks that the rule holds, and that the mutant breaks it.
fn is_caught<F: Future<Output = Result<()>>>(mutant: Mutant, rule: impl Fn() -> F) -> Result<()> {
    let run = || {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build()?;
        let limit = Duration::from_secs(600);
        runtime.block_on(async { tokio::time::timeout(limit, rule()).await? })
    };
    run()?;
    let broken = engine::with(mutant, run);
    println!("{mutant:?}: {broken:?}");
    ensure!(broken.is_err(), "{mutant:?} was not found");
    Ok(())
}

#[test]
fn a_claim_that_is_used_again_in_the_next_round_is_caught() -> Result<()> {
    is_caught(
        Mutant::ReuseClaim,
        a_late_release_of_one_round_does_not_end_the_next,
    )
}

#[test]
fn a_write_back_that_counts_where_the_claim_is_gone_is_caught() -> Result<()> {
    is_caught(
        Mutant::GoneWriteBackCounts,
        no_two_hold_when_claims_vanish_before_the_write_back,
    )
}

#[test]
fn unequal_tokens_that_are_not_written_back_are_caught() -> Result<()> {
    is_caught(
        Mutant::UnequalTokensAgree,
        tokens_increase_from_one_majority_to_the_next,
    )
}

#[test]
fn a_quorum_of_those_that_answered_is_caught() -> Result<()> {
    is_caught(
        Mutant::QuorumOfAnswers,
        no_two_hold_when_the_network_is_divided,
    )
}

#[test]
fn a_release_that_stops_at_the_first_error_is_caught() -> Result<()> {
    is_caught(
        Mutant::ReleaseStopsAtFirstError,
        a_release_frees_every_server_that_answers,
    )
}

#[test]
fn no_mutant_of_locks_over_several_servers_is_forgotten() {
    let hunted = [
        Mutant::GoneWriteBackCounts,
        Mutant::QuorumOfAnswers,
        Mutant::UnequalTokensAgree,
        Mutant::ReleaseStopsAtFirstError,
    ];
    assert_eq!(Mutant::QUORUM, hunted);
}
