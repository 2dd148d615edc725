//! How a Redlock is granted, on embedded servers of which some fail, with paused time.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Error, LeaseState, LossReason, RedlockGuard, Released};
use lockkeeper_lua::{Script, redlock};
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_tests::counter;
use lockkeeper_tests::majority::{MAIN, Process, Servers, TTL};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

/// The channel of the messages that wake its waiters.
const WAKES: &str = "lockkeeper.wake:{lockkeeper:name}";

#[tokio::test(start_paused = true)]
async fn one_holds_and_the_next_is_told_when_it_leaves() -> Result<()> {
    let servers = Servers::five();
    let (one, other) = (servers.process()?, servers.process()?);
    let guard = one.acquired().await?;
    ensure!(guard.state() == LeaseState::Held && guard.valid_parts() == 5);
    ensure!(servers.held() == 5);
    ensure!(other.lock.try_acquire().await?.is_none());
    let waiting = tokio::spawn(other.lock.acquire().into_future());
    sleep(Duration::from_secs(60)).await;
    ensure!(!waiting.is_finished(), "the lease was not renewed");
    let released = Instant::now();
    ensure!(guard.release().await? == Released::Free);
    let next = timeout(TTL, waiting).await???;
    ensure!(
        released.elapsed() < Duration::from_millis(200),
        "nobody was told"
    );
    next.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn messages_that_come_while_a_waiter_gathers_them_are_not_left_to_the_next() -> Result<()> {
    let servers = Servers::five();
    let (process, other) = (servers.process()?, servers.process()?);
    let holds = other.acquired().await?;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(tokio::spawn(process.lock.acquire().into_future()));
        sleep(Duration::from_secs(1)).await;
    }
    // The first waiter hears from three servers, and from them again while it waits in vain for the other two.
    for link in &process.links[3..] {
        link.lose_messages();
    }
    holds.release().await?;
    for _ in 0..100 {
        yield_now().await;
    }
    for server in &servers.0[..3] {
        server.execute(&["PUBLISH", WAKES, "free"])?;
    }
    let next = timeout(TTL, waiting.remove(0)).await???;
    let asked = process.links[0].sent(&redlock::ACQUIRE);
    sleep(Duration::from_secs(1)).await;
    ensure!(process.links[0].sent(&redlock::ACQUIRE) == asked);
    next.release().await?;
    timeout(TTL, waiting.remove(0)).await???.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn it_works_without_two_of_five_and_refuses_promptly_without_three() -> Result<()> {
    let servers = Servers::five();
    let process = servers.process()?;
    process.lose(&[1, 3]);
    let guard = process.acquired().await?;
    ensure!(guard.valid_parts() == 3 && servers.held() == 3);
    guard.release().await?;
    ensure!(servers.held() == 0);
    process.lose(&[4]);
    let begun = Instant::now();
    let error = process.lock.try_acquire().await.unwrap_err();
    ensure!(begun.elapsed() < TTL / 4, "it took {:?}", begun.elapsed());
    ensure!(matches!(error, Error::Backend { .. }) && error.is_transient());
    let text = error.to_string();
    for named in [
        "3 of which",
        "server 2 (memory://)",
        "server 4 (",
        "server 5 (",
    ] {
        ensure!(text.contains(named), "{text}");
    }
    ensure!(!text.contains("server 1"), "{text}");
    let error = process.lock.acquire().wait_for(TTL / 2).await.unwrap_err();
    ensure!(matches!(error, Error::Backend { .. }), "{error}");
    // Without a time limit, the error comes when no lease could have lasted longer.
    let begun = Instant::now();
    let error = process.lock.acquire().await.unwrap_err();
    ensure!(matches!(error, Error::Backend { .. }), "{error}");
    ensure!(begun.elapsed() < TTL * 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_round_that_fails_leaves_every_server_also_those_that_did_not_answer() -> Result<()> {
    let servers = Servers::five();
    let process = servers.process()?;
    for link in &process.links[..3] {
        link.plan(&redlock::ACQUIRE, Fate::LoseReply);
        link.plan(&redlock::ACQUIRE, Fate::LoseReply);
    }
    ensure!(process.lock.try_acquire().await.is_err());
    sleep(Duration::from_millis(100)).await;
    ensure!(servers.held() == 0, "{} still held", servers.held());
    // An acquire that is executed after its release creates nothing.
    process.links[0].plan(&redlock::ACQUIRE, Fate::Keep);
    let guard = process.acquired().await?;
    ensure!(guard.valid_parts() == 4);
    guard.release().await?;
    sleep(Duration::from_millis(100)).await;
    process.links[0].deliver(&servers.0[0]).await;
    ensure!(servers.held() == 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_round_is_of_a_claim_that_has_not_been_before() -> Result<()> {
    let servers = Servers::five();
    let (one, other) = (servers.process()?, servers.process()?);
    let guard = one.acquired().await?;
    let waiting = other.lock.acquire().wait_for(TTL * 2).into_future();
    ensure!(matches!(waiting.await, Err(Error::Timeout { .. })));
    let link = &other.links[0];
    let marks: Vec<String> = link
        .keys_sent(&redlock::ACQUIRE)
        .into_iter()
        .map(|keys| keys[2].clone())
        .collect();
    let mut different = marks.clone();
    different.sort();
    different.dedup();
    ensure!(
        marks.len() > 1 && different.len() == marks.len(),
        "{marks:?}"
    );
    guard.release().await?;
    Ok(())
}

/// A process that is stopped for a whole ttl while the replies to this script are in flight.
async fn stopped_behind(script: &'static Script) -> Result<()> {
    let servers = Servers::five();
    for (place, server) in servers.0.iter().enumerate() {
        // So far apart that they cannot agree on a token, and one is written back.
        server.step_clock(i64::try_from(place)? * 2000);
    }
    let process = servers.process()?;
    for link in &process.links {
        link.slow_down(script, Duration::from_millis(50));
    }
    let waiting = tokio::spawn(process.lock.acquire().into_future());
    process.links[0].wait_sent(script, 1).await;
    tokio::time::advance(TTL).await;
    // Its grants had ended before it saw them: it asked again with another claim.
    let guard = waiting.await??;
    ensure!(process.links[4].sent(&redlock::ACQUIRE) > 1);
    ensure!(guard.remaining() > TTL / 2 && servers.held() == 5);
    guard.release().await?;
    ensure!(servers.held() == 0);
    // The clocks pass that token.
    sleep(TTL).await;
    for link in &process.links {
        link.slow_down(script, Duration::from_millis(50));
    }
    let (before, once) = (process.links[0].sent(script), process.lock.clone());
    let trying = tokio::spawn(async move { once.try_acquire().await });
    for times in 1..=2 {
        process.links[0].wait_sent(script, before + times).await;
        tokio::time::advance(TTL).await;
    }
    let error = trying.await?.err().context("nothing could be granted")?;
    ensure!(error.to_string().contains("too late"), "{error}");
    sleep(Duration::from_millis(500)).await;
    ensure!(servers.held() == 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_eats_the_validity_is_a_failure_that_releases_everywhere() -> Result<()> {
    stopped_behind(&redlock::ACQUIRE).await
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_the_write_back_that_eats_the_validity_is_a_failure_too() -> Result<()> {
    stopped_behind(&redlock::RAISE).await
}

#[tokio::test(start_paused = true)]
async fn tokens_increase_whichever_majority_grants_and_clocks_a_second_apart() -> Result<()> {
    let servers = Servers::five();
    for (place, step) in [0, 1000, -1000, 500, -300].into_iter().enumerate() {
        servers.0[place].step_clock(step);
    }
    let mut last = 0;
    for lost in [[1, 3], [0, 2], [2, 4], [0, 1], [3, 4], [1, 2], [0, 4]] {
        let process = servers.process()?;
        process.lose(&lost);
        let guard = process.acquired().await?;
        let token = guard.fencing_token().get();
        ensure!(token > last, "{token} after {last}, without {lost:?}");
        let behind = servers
            .fences()
            .iter()
            .filter(|fence| **fence >= token)
            .count();
        ensure!(behind >= 3, "the token stands on {behind} servers");
        last = token;
        guard.release().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_write_back_where_the_claim_is_gone_is_no_part_of_a_grant() -> Result<()> {
    let servers = Servers::five();
    for (place, server) in servers.0.iter().enumerate() {
        server.step_clock(i64::try_from(place)? * 100);
    }
    let process = servers.process()?;
    // Between the grant and the write-back the claims vanish from three servers.
    for link in &process.links[..4] {
        link.slow_down(&redlock::ACQUIRE, Duration::from_millis(50));
    }
    let asking = tokio::spawn(process.lock.try_acquire().into_future());
    sleep(Duration::from_millis(20)).await;
    for server in &servers.0[..3] {
        server.execute(&["DEL", MAIN])?;
    }
    match asking.await? {
        Err(Error::Backend { .. }) => {}
        // The second round succeeded.
        Ok(Some(guard)) => ensure!(servers.held() >= 3 && guard.valid_parts() >= 3),
        other => ensure!(false, "{other:?}"),
    }
    for server in &servers.0[..3] {
        ensure!(server.execute(&["PTTL", &counter("name")?]).is_ok());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lost_its_data_stays_out_for_the_longest_ttl() -> Result<()> {
    let servers = Servers::five();
    let (one, other) = (servers.process()?, servers.process()?);
    one.lose(&[3, 4]);
    let guard = one.acquired().await?;
    sleep(Duration::from_secs(1)).await;
    // With it, the two servers that the holder does not have would be a majority.
    servers.0[0].restart_empty();
    for second in 0..TTL.as_secs() - 1 {
        let tried = other.lock.try_acquire().await?;
        ensure!(tried.is_none(), "after {second} s: {tried:?}, {guard:?}");
        ensure!(guard.state() != LeaseState::Released);
        sleep(Duration::from_secs(1)).await;
    }
    // It had three servers, and now has two.
    ensure!(
        guard.state() == LeaseState::Lost(LossReason::Gone),
        "{guard:?}"
    );
    drop(guard);
    let next = other.acquired().await?;
    ensure!(next.valid_parts() >= 4, "{next:?}");
    Ok(())
}

/// The uptime is a difference of two readings of the wall clock. This is beyond the conditions: a clock that is set forward
/// after a restart makes the server take part before the leases that it has forgotten have ended.
#[tokio::test(start_paused = true)]
async fn a_clock_set_forward_after_a_restart_lets_a_server_in_too_early() -> Result<()> {
    let servers = Servers::five();
    let (one, other) = (servers.process()?, servers.process()?);
    one.lose(&[3, 4]);
    let guard = one.acquired().await?;
    servers.0[0].restart_empty();
    ensure!(other.lock.try_acquire().await?.is_none());
    servers.0[0].step_clock(3_600_000);
    let second = other.lock.try_acquire().await?;
    ensure!(second.is_some(), "the page says otherwise");
    ensure!(guard.state() == LeaseState::Held, "{guard:?}");
    // Only the tokens distinguish them.
    ensure!(second.is_some_and(|second| second.fencing_token() > guard.fencing_token()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn servers_that_have_just_begun_are_named_with_the_time_they_stay_out() -> Result<()> {
    let servers = Servers::five();
    for server in &servers.0[..3] {
        server.restart_empty();
    }
    let process = servers.process()?;
    let error = process.lock.try_acquire().await.unwrap_err();
    ensure!(
        error
            .to_string()
            .contains("server 1 (memory://): it was started too recently"),
        "{error}"
    );
    ensure!(error.is_transient());
    let begun = Instant::now();
    let guard = process.acquired().await?;
    ensure!(
        begun.elapsed() < TTL + Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    guard.release().await?;
    Ok(())
}

/// On the server that the holder does not have, waiters are granted in vain, and each of their releases is published to all of
/// them.
#[tokio::test(start_paused = true)]
async fn waiters_do_not_wake_one_another_by_what_they_take_in_vain() -> Result<()> {
    let servers = Servers::five();
    let holder = servers.process()?;
    holder.links[0].plan(&redlock::ACQUIRE, Fate::NotSent);
    let guard = holder.acquired().await?;
    ensure!(guard.valid_parts() == 4);
    let processes: Vec<Process> = (0..4).map(|_| servers.process()).collect::<Result<_>>()?;
    let mut waiting = tokio::task::JoinSet::new();
    for process in &processes {
        for (place, link) in process.links.iter().enumerate() {
            let delay = Duration::from_millis(1 + u64::try_from(place)? % 2);
            link.slow_down(&redlock::ACQUIRE, delay);
        }
        waiting.spawn(process.lock.acquire().into_future());
    }
    sleep(TTL * 6).await;
    for process in &processes {
        // Each waiter expects the end of the lease, in vain, some twice per ttl.
        let asked = process.links[1].sent(&redlock::ACQUIRE);
        ensure!(asked < 60, "asked {asked} times within six ttls");
    }
    let released = Instant::now();
    guard.release().await?;
    while let Some(guard) = waiting.join_next().await {
        guard??.release().await?;
    }
    let took = released.elapsed();
    ensure!(took < Duration::from_secs(2), "all were served in {took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn waiters_ask_seldom_while_a_majority_stays_out() -> Result<()> {
    let servers = Servers::five();
    for server in &servers.0[1..] {
        server.restart_empty();
    }
    let processes = [servers.process()?, servers.process()?];
    let mut waiting = tokio::task::JoinSet::new();
    for process in &processes {
        let acquire = process.lock.acquire();
        waiting.spawn(async move { acquire.await?.release().await });
    }
    while let Some(served) = waiting.join_next().await {
        served??;
    }
    for process in &processes {
        let asked = process.links[0].sent(&redlock::ACQUIRE);
        ensure!(asked < 12, "asked {asked} times within a ttl");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn contenders_that_march_in_step_are_all_served() -> Result<()> {
    let servers = Servers::five();
    let processes: Vec<Process> = (0..8).map(|_| servers.process()).collect::<Result<_>>()?;
    for process in &processes {
        for (place, link) in process.links.iter().enumerate() {
            let delay = Duration::from_millis(1 + u64::try_from(place)?);
            link.slow_down(&redlock::ACQUIRE, delay);
        }
    }
    let asking: Vec<_> = processes
        .iter()
        .map(|process| tokio::spawn(process.lock.acquire().into_future()))
        .collect();
    let mut tokens = Vec::new();
    let mut asking = futures(asking);
    while let Some(guard) = asking.recv().await {
        tokens.push(guard?.fencing_token());
    }
    ensure!(tokens.len() == 8 && tokens.is_sorted());
    Ok(())
}

/// The outcomes of tasks as they arrive; the receiver drops each guard.
fn futures<T: Send + 'static>(
    tasks: Vec<tokio::task::JoinHandle<T>>,
) -> tokio::sync::mpsc::Receiver<T> {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    for task in tasks {
        let sender = sender.clone();
        tokio::spawn(async move {
            if let Ok(outcome) = task.await {
                let _ = sender.send(outcome).await;
            }
        });
    }
    receiver
}

#[tokio::test(start_paused = true)]
async fn a_name_that_holds_something_else_on_a_majority_is_refused() -> Result<()> {
    let servers = Servers::five();
    let process = servers.process()?;
    for server in &servers.0[..2] {
        server.execute(&["HSET", MAIN, "kind", "other"])?;
    }
    process.acquired().await?.release().await?;
    servers.0[2].execute(&["HSET", MAIN, "kind", "other"])?;
    let error = process.lock.acquire().await.unwrap_err();
    ensure!(matches!(error, Error::WrongKind { .. }), "{error}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn servers_that_stay_out_do_not_use_up_the_patience_with_those_that_do_not_answer()
-> Result<()> {
    let servers = Servers::five();
    for server in &servers.0[..3] {
        server.restart_empty();
    }
    let process = servers.process()?;
    let waiting = tokio::spawn(process.lock.acquire().into_future());
    // When all servers take part again, three do not answer once.
    sleep(TTL + Duration::from_millis(500)).await;
    for link in &process.links[..3] {
        link.plan(&redlock::ACQUIRE, Fate::NotSent);
    }
    let guard = timeout(TTL, waiting).await???;
    ensure!(process.links[0].sent(&redlock::ACQUIRE) > 2);
    guard.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn dead_servers_are_waited_for_although_another_holds_something_else() -> Result<()> {
    let servers = Servers::five();
    let process = servers.process()?;
    servers.0[0].execute(&["HSET", MAIN, "kind", "other"])?;
    for link in &process.links[1..3] {
        link.plan(&redlock::ACQUIRE, Fate::NotSent);
    }
    let guard = process.acquired().await?;
    ensure!(guard.valid_parts() == 4, "{guard:?}");
    guard.release().await?;
    Ok(())
}

/// The documented role of timing: exclusion depends on it, and the order of tokens does not.
#[tokio::test(start_paused = true)]
async fn clocks_that_jump_let_two_hold_and_their_tokens_are_still_in_order() -> Result<()> {
    let servers = Servers::five();
    for (place, step) in [0, 1000, -1000, 500, -300].into_iter().enumerate() {
        servers.0[place].step_clock(step);
    }
    let mut held: Vec<RedlockGuard> = Vec::new();
    for jumping in [[0, 1, 2], [2, 3, 4], [1, 2, 3]] {
        let guard = servers.process()?.acquired().await?;
        if let Some(last) = held.last() {
            ensure!(last.ensure_held().is_ok(), "nobody else held");
            ensure!(last.fencing_token() < guard.fencing_token());
        }
        held.push(guard);
        for place in jumping {
            servers.0[place].step_clock(i64::try_from(TTL.as_millis())?);
        }
    }
    Ok(())
}
