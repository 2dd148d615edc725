//! Times out of all proportion: none, a nanosecond and the longest that there is. Each setting works with it, or says by its own
//! name what is wrong, before anything is sent.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Acquire, Client, ClientBuilder, Error, Latch, Mutex, MutexGuard, Once, OnceError, Redlock,
};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::FaultyStore;
use lockkeeper_tests::polling;

const TIMES: [Duration; 3] = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];

/// What each of [`TIMES`] must lead to: a part of the error, or success.
type Outcomes = [Option<&'static str>; 3];

/// Checks one outcome, and that a refusal shows the time that was set.
fn check(
    setting: &str,
    time: Duration,
    outcome: Result<(), Error>,
    expected: Option<&str>,
) -> Result<()> {
    let case = format!("{setting}({time:?})");
    let Some(expected) = expected else {
        return outcome.context(case);
    };
    let error = outcome
        .err()
        .with_context(|| format!("{case} was accepted"))?;
    ensure!(matches!(error, Error::Config { .. }), "{case}: {error:?}");
    let text = error.to_string();
    ensure!(text.contains(expected), "{case}: {text}");
    ensure!(
        text.contains(&format!("{time:?}")),
        "{case} is not shown: {text}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_refuses_each_time_that_cannot_work_by_its_own_name() -> Result<()> {
    type Set = fn(ClientBuilder, Duration) -> ClientBuilder;
    let settings: [(&str, Set, Outcomes); 6] = [
        (
            "ttl",
            ClientBuilder::ttl,
            [
                Some("a ttl of 0ns is too short"),
                Some("a ttl of 1ns is too short"),
                Some("at most a year"),
            ],
        ),
        (
            "waiter_ttl",
            ClientBuilder::waiter_ttl,
            [
                Some("waiter_ttl(0ns) is too short"),
                Some("waiter_ttl(1ns) is too short"),
                Some("is too long"),
            ],
        ),
        (
            "margin",
            ClientBuilder::margin,
            [None, None, Some("choose a smaller margin")],
        ),
        (
            "request_timeout",
            ClientBuilder::request_timeout,
            [
                Some("request_timeout(0ns) is too short"),
                Some("request_timeout(1ns) is too short"),
                Some("is too long"),
            ],
        ),
        (
            "release_timeout",
            ClientBuilder::release_timeout,
            [
                Some("release_timeout(0ns) is too short"),
                Some("release_timeout(1ns) is too short"),
                Some("is too long"),
            ],
        ),
        (
            "poll_every",
            ClientBuilder::poll_every,
            [
                Some("poll_every(0ns) is too short"),
                Some("poll_every(1ns) is too short"),
                Some("is too long"),
            ],
        ),
    ];
    for (setting, set, outcomes) in settings {
        for (time, expected) in TIMES.into_iter().zip(outcomes) {
            let server = MemoryStore::new();
            let built = set(Client::builder(), time).build(Arc::new(server.sibling()));
            let outcome = match built {
                Ok(client) => Mutex::new(&client, "name").acquire().await.map(drop),
                Err(error) => Err(error),
            };
            check(setting, time, outcome, expected)?;
        }
    }
    Ok(())
}

/// The default ttl is 30 s, the default waiter ttl 10 s.
#[tokio::test(start_paused = true)]
async fn a_margin_that_is_too_long_is_blamed_itself() -> Result<()> {
    for (margin, text) in [
        (3, "margin(3s) is too long for the waiter ttl of 10s"),
        (29, "a margin of 29s leaves no time to renew"),
        (40, "margin(40s) is too long for a ttl of 30s"),
    ] {
        let settings = Client::builder().margin(Duration::from_secs(margin));
        let error = settings.build(Arc::new(MemoryStore::new())).err();
        let error = error.context("it was accepted")?.to_string();
        ensure!(error.contains(text), "{error}");
    }
    let settings = Client::builder().margin(Duration::from_millis(500));
    let client = settings.build(Arc::new(MemoryStore::new()))?;
    let short = Mutex::new(&client, "name")
        .acquire()
        .ttl(Duration::from_millis(400));
    let error = short.await.err().context("it was accepted")?.to_string();
    ensure!(
        error.contains("margin(500ms) is too long for a ttl of 400ms"),
        "{error}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_refuses_each_time_that_cannot_work_before_anything_is_sent() -> Result<()> {
    type Set = fn(Acquire<MutexGuard>, Duration) -> Acquire<MutexGuard>;
    let year = Some("at most a year");
    let (short, ends) = (Some("is too short"), Some("before it begins"));
    let settings: [(&str, Set, Outcomes); 4] = [
        ("ttl", Acquire::ttl, [short, short, year]),
        ("max_hold", Acquire::max_hold, [ends, ends, None]),
        ("min_hold", Acquire::min_hold, [None, None, year]),
        ("wait_for", Acquire::wait_for, [None; 3]),
    ];
    for (setting, set, outcomes) in settings {
        for (time, expected) in TIMES.into_iter().zip(outcomes) {
            for builder in [Client::builder(), polling()] {
                let server = MemoryStore::new();
                let client = builder.label("").build(Arc::new(server.sibling()))?;
                let outcome = set(Mutex::new(&client, "name").acquire(), time).await;
                check(setting, time, outcome.map(drop), expected)?;
                let sent = !server.keys().is_empty();
                ensure!(expected.is_none() || !sent, "{setting}({time:?})");
            }
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_longest_time_to_wait_is_no_limit() -> Result<()> {
    for settings in [Client::builder(), polling()] {
        let server = MemoryStore::new();
        let holder = settings.clone().build(Arc::new(server.sibling()))?;
        let client = settings.build(Arc::new(server.sibling()))?;
        let guard = Mutex::new(&holder, "name").acquire().await?;
        let waiting = Mutex::new(&client, "name")
            .acquire()
            .wait_for(Duration::MAX);
        let waiting = tokio::spawn(waiting.into_future());
        tokio::time::sleep(Duration::from_secs(100)).await;
        ensure!(!waiting.is_finished());
        guard.release().await?;
        waiting.await??.release().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_times_of_latches_of_work_and_of_redlocks_are_refused_by_their_own_names() -> Result<()>
{
    for (place, time) in TIMES.into_iter().enumerate() {
        let server = MemoryStore::new();
        let connect = || {
            Client::builder()
                .label("")
                .build(Arc::new(server.sibling()))
        };
        let client = connect()?;
        let is_refused = |setting: &str, outcome: Result<(), Error>, expected: Outcomes| {
            check(setting, time, outcome, expected[place])
        };
        let armed = Latch::new(&client, "latch").ttl(time).arm(1).await;
        is_refused("ttl", armed.map(drop), [Some("a latch's ttl"); 3])?;
        let once = Once::new(&client, "once");
        let work = async |once: Once| {
            let done = once
                .get_or_run(async |_| Ok::<_, std::io::Error>(Vec::new()))
                .await;
            match done {
                Err(OnceError::Lock(error)) => Err(error),
                _ => Ok(()),
            }
        };
        let kept = work(once.clone().keep_for(time)).await;
        is_refused("keep_for", kept, [Some("keep_for("); 3])?;
        let again = work(once.clone().retry_after(time)).await;
        is_refused("retry_after", again, [Some("retry_after("); 3])?;
        let leased = work(once.ttl(time)).await;
        is_refused("ttl", leased, [Some("a ttl of"); 3])?;
        let (b, c) = (connect()?, connect()?);
        let redlock = Redlock::new([&client, &b, &c], "redlock")?.longest_ttl(time);
        let held = redlock.acquire().await.map(drop);
        is_refused("longest_ttl", held, [Some("longest_ttl("); 3])?;
        ensure!(server.keys().is_empty(), "{:?}", server.keys());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_try_with_a_max_hold_shorter_than_a_request_says_so() -> Result<()> {
    let (client, requests) = FaultyStore::client(&MemoryStore::new(), Client::builder())?;
    let slow = Duration::from_millis(50);
    requests.delay(slow, slow);
    let report = Mutex::new(&client, "report");
    let tried = report.try_acquire().max_hold(slow).await;
    let text = tried.err().context("it was granted")?.to_string();
    ensure!(text.contains("choose a longer max_hold"), "{text}");
    let guard = report.try_acquire().max_hold(4 * slow).await?;
    ensure!(guard.is_some(), "its own claim is in the way");
    Ok(())
}
