//! How a Redlock gets its tokens: what it proposes to all servers, and what is written back, on embedded servers with paused
//! time.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::Redlock;
use lockkeeper_lua::redlock;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_tests::counter;
use lockkeeper_tests::majority::{Process, Servers};
use tokio::time::sleep;

/// Five servers whose clocks are this many milliseconds ahead.
fn servers_ahead(ahead: [i64; 5]) -> Servers {
    let servers = Servers::five();
    for (server, ahead) in servers.0.iter().zip(ahead) {
        server.step_clock(ahead);
    }
    servers
}

/// How many acquires and write-backs were sent to each server so far.
fn asked(process: &Process) -> [Vec<usize>; 2] {
    [&redlock::ACQUIRE, &redlock::RAISE].map(|script| {
        let links = process.links.iter();
        links.map(|link| link.sent(script)).collect()
    })
}

/// Acquires these names in turn, each twice. Returns the requests to each server meanwhile.
async fn asked_by(process: &Process, names: &[&str]) -> Result<[Vec<usize>; 2]> {
    let before = asked(process);
    for name in [names, names].concat() {
        let lock = Redlock::new(&process.clients, name)?;
        let guard = lock.acquire().await?;
        ensure!(guard.valid_parts() == 5, "{guard:?}");
        sleep(Duration::from_millis(7)).await;
        guard.release().await?;
    }
    let mut after = asked(process);
    for (after, before) in after.iter_mut().flatten().zip(before.iter().flatten()) {
        *after -= before;
    }
    Ok(after)
}

#[tokio::test(start_paused = true)]
async fn after_its_first_grant_a_client_asks_each_server_once_to_acquire_any_name() -> Result<()> {
    let servers = servers_ahead([0, 120, -150, 40, 200]);
    let process = servers.process()?;
    process.acquired().await?.release().await?;
    // The client knew nothing about the clocks yet.
    let [_, raised] = asked(&process);
    ensure!(raised.iter().sum::<usize>() > 0, "{raised:?}");
    let [acquired, raised] = asked_by(&process, &["name", "other", "third"]).await?;
    ensure!(
        acquired == [6; 5] && raised == [0; 5],
        "{acquired:?} {raised:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn clients_that_take_turns_ask_each_server_once_too() -> Result<()> {
    let servers = servers_ahead([0, 120, -150, 40, 200]);
    let processes = [servers.process()?, servers.process()?, servers.process()?];
    for process in &processes {
        process.acquired().await?.release().await?;
    }
    let mut last = 0;
    for process in processes.iter().chain(&processes) {
        let [acquired, raised] = asked_by(process, &["name"]).await?;
        ensure!(
            acquired == [2; 5] && raised == [0; 5],
            "{acquired:?} {raised:?}"
        );
        let guard = process.acquired().await?;
        ensure!(guard.fencing_token().get() > last, "{guard:?} after {last}");
        last = guard.fencing_token().get();
        guard.release().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn servers_whose_clocks_are_wrong_do_not_keep_the_others_from_agreeing() -> Result<()> {
    for wrong in [-60_000, 60_000] {
        let servers = servers_ahead([0, wrong, 20, 10, wrong]);
        let process = servers.process()?;
        process.acquired().await?.release().await?;
        let [acquired, raised] = asked_by(&process, &["other", "third"]).await?;
        ensure!(
            acquired == [4; 5] && raised == [0; 5],
            "{acquired:?} {raised:?}"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_learns_anew_when_clocks_are_set() -> Result<()> {
    let servers = servers_ahead([0, 120, -150, 40, 200]);
    let process = servers.process()?;
    process.acquired().await?.release().await?;
    for step in [3_600_000, -1_800_000] {
        for server in &servers.0 {
            server.step_clock(step);
        }
        // A server whose keys are from the future draws from the counter, which every server has.
        process.acquired().await?.release().await?;
        process.acquired().await?.release().await?;
        let [acquired, raised] = asked_by(&process, &["other", "third"]).await?;
        ensure!(
            acquired == [4; 5] && raised == [0; 5],
            "{acquired:?} {raised:?}, {step}"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grant_without_some_servers_is_below_every_later_one_with_them() -> Result<()> {
    let servers = servers_ahead([0, 120, -150, 40, 200]);
    let processes = [servers.process()?, servers.process()?];
    let mut last = 0;
    for round in 0..40_usize {
        let process = &processes[round % 2];
        // Its acquire is never executed on two servers.
        for place in [round % 5, (round * 3 + 1) % 5] {
            process.links[place].plan(&redlock::ACQUIRE, Fate::NotSent);
        }
        let guard = process.acquired().await?;
        let token = guard.fencing_token().get();
        ensure!(token > last, "{token} after {last} in round {round}");
        last = token;
        guard.release().await?;
        sleep(Duration::from_millis(3 * (round as u64 % 3))).await;
    }
    Ok(())
}

/// The counters are lost, and the clocks go back by an hour.
#[tokio::test(start_paused = true)]
async fn no_grant_is_below_what_its_client_has_seen() -> Result<()> {
    let servers = servers_ahead([0; 5]);
    let process = servers.process()?;
    let guard = process.acquired().await?;
    let seen = guard.fencing_token();
    guard.release().await?;
    for server in &servers.0 {
        server.step_clock(-3_600_000);
        server.execute(&["DEL", &counter("name")?])?;
    }
    let guard = process.acquired().await?;
    ensure!(guard.fencing_token() > seen, "{guard:?}");
    guard.release().await?;
    let other = servers.process()?.acquired().await?;
    ensure!(other.fencing_token() > seen, "{other:?}");
    Ok(())
}
