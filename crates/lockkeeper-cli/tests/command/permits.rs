//! Runs that take permits of a semaphore, and its limit.

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use lockkeeper::Semaphore;
use lockkeeper_testkit::server::Server;

use crate::printed::{Said, ask, asked, assert_printed, end_of, shell};
use crate::support::{LIMIT, Run, command, db7, run, until};

/// A run that lasts until its stdin ends.
fn job(server: &Server, label: &str, limit: u32, permits: u32) -> Result<Run> {
    let options = format!("--semaphore jobs --limit {limit} --permits {permits}");
    Run::start(server, &format!("--label {label} {options}"), &["cat"])
}

/// Runs `lockkeeper run` with these options and a program that prints that it ran.
async fn echo(server: &Server, options: &str) -> Result<Said> {
    ask(server, &format!("run {options} -- echo ran")).await
}

/// Waits until this many runs wait.
async fn waiting(jobs: &Semaphore, number: u64) -> Result<()> {
    until("they wait", async || {
        Ok(jobs.state().await?.is_some_and(|it| it.waiters == number))
    })
    .await
}

#[tokio::test]
async fn of_a_fleet_of_five_no_more_than_two_work_at_once_and_all_end() -> Result<()> {
    let server = Server::start().await?;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let work = "echo begin >> \"$0\"; sleep 0.05; echo end >> \"$0\"";
    let fleet = (0..5).map(async |_| {
        let words = run("--semaphore jobs --limit 2", &["sh", "-c", work]);
        end_of(command(&server.url(), &words).arg(&log)).await
    });
    for ended in try_join_all(fleet).await? {
        ensure!(ended.code == Some(0), "{ended}");
    }
    let log = std::fs::read_to_string(log)?;
    let mut at_work = 0;
    for line in log.lines() {
        at_work += if line == "begin" { 1 } else { -1 };
        ensure!((0..=2).contains(&at_work), "{at_work} at once: {log}");
    }
    ensure!(log.lines().count() == 10 && at_work == 0, "{log}");
    Ok(())
}

#[tokio::test]
async fn a_raised_limit_starts_the_next_and_a_lowered_one_stops_nobody() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let jobs = Semaphore::new(&client, "jobs", 2);
    let mut runs = Vec::new();
    for label in ["one", "two"] {
        let mut run = job(&server, label, 2, 1)?;
        run.event("started").await?;
        runs.push(run);
    }
    let mut third = job(&server, "three", 2, 1)?;
    waiting(&jobs, 1).await?;
    assert_printed!(asked(&server, &["limit jobs", "limit jobs 3"]).await?, @"
    $ limit jobs
    jobs: a limit of 2, 2 held, 1 waiting
    $ limit jobs 3
    jobs: a limit of 3, 3 held, 0 waiting
    ");
    third.event("started").await?;
    assert_printed!(asked(&server, &["limit jobs 1", "limit jobs --json"]).await?, @r#"
    $ limit jobs 1
    jobs: a limit of 1, 3 held, 0 waiting
    $ limit jobs --json
    {"name":"jobs","limit":1,"held":3,"waiters":0}
    "#);

    let mut fourth = job(&server, "four", 2, 1)?;
    waiting(&jobs, 1).await?;
    ensure!(third.close().await? == 0);
    for mut run in runs {
        ensure!(jobs.state().await?.is_some_and(|it| it.waiters == 1));
        ensure!(run.close().await? == 0);
    }
    fourth.event("started").await?;
    ensure!(fourth.close().await? == 0);
    Ok(())
}

#[tokio::test]
async fn the_limit_of_a_semaphore_that_nobody_uses_is_said_to_be_that_of_whoever_comes()
-> Result<()> {
    let server = Server::start().await?;
    let lines = [
        "limit jobs",
        "limit jobs 12",
        "limit jobs 12 --json",
        "limit jobs 0",
    ];
    assert_printed!(asked(&server, &lines).await?, @r#"
    $ limit jobs
    jobs: nobody holds it or waits for it, so the next run sets the limit
    $ limit jobs 12
    jobs: nobody holds it or waits for it, so nothing was changed: the next run sets the limit
    $ limit jobs 12 --json
    {"name":"jobs","limit":null,"held":0,"waiters":0}
    $ limit jobs 0
    ! error: invalid value '0' for '[LIMIT]': it must be at least 1
    => 64
    "#);
    let keys = server.command(&["DBSIZE"]).await?;
    ensure!(keys.into_integer()? == 0, "something was left");
    Ok(())
}

#[tokio::test]
async fn a_conflict_says_how_many_permits_are_held_and_whether_somebody_waits_in_front()
-> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let jobs = Semaphore::new(&client, "jobs", 4);
    let mut heavy = job(&server, "the-heavy-one", 4, 3)?;
    heavy.event("started").await?;
    let two = "--semaphore jobs --limit 4 --permits 2";
    assert_printed!(echo(&server, &format!("{two} --no-wait")).await?, @r#"
    ! lockkeeper: "jobs" has 3 of 4 permits held by <machine>:<pid> the-heavy-one
    => 75
    "#);
    assert_printed!(echo(&server, &format!("{two} --wait 200ms")).await?, @r#"
    ! lockkeeper: "jobs" has 3 of 4 permits held by <machine>:<pid> the-heavy-one
    => 75
    "#);
    let mut behind = job(&server, "behind", 4, 2)?;
    waiting(&jobs, 1).await?;
    let one = "--semaphore jobs --limit 4 --no-wait";
    assert_printed!(echo(&server, one).await?, @r#"
    ! lockkeeper: "jobs" has 3 of 4 permits held by <machine>:<pid> the-heavy-one, and another waits in front for more than are free
    => 75
    "#);
    ensure!(heavy.close().await? == 0);
    behind.event("started").await?;
    assert_printed!(echo(&server, one).await?, @"ran");
    ensure!(behind.close().await? == 0);
    Ok(())
}

#[tokio::test]
async fn a_run_with_another_limit_works_by_the_one_that_stands_and_says_so() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _held = Semaphore::new(&client, "jobs", 2).acquire().await?;
    let mut run = job(&server, "eight", 8, 1)?;
    assert_printed!(run.event_line("other-limit").await?, @r#"{"at":"<time>","ms":<ms>,"event":"other-limit","name":"jobs","limit":2}"#);
    run.event("started").await?;
    ensure!(run.close().await? == 0);

    let eight = "--semaphore jobs --limit 8";
    assert_printed!(echo(&server, &format!("{eight} --no-wait")).await?, @r#"
    ran
    ! lockkeeper: others use "jobs" with a limit of 2, which applies while anybody uses it; `lockkeeper limit` changes it
    "#);
    for patience in ["--no-wait", "--wait 1h"] {
        let refused = echo(&server, &format!("{eight} --permits 3 {patience}")).await?;
        assert_printed!(refused, @r#"
        ! lockkeeper: "jobs" now has 2 permits, fewer than requested: ask for fewer --permits, or raise the limit with `lockkeeper limit`
        => 64
        "#);
    }
    Ok(())
}

#[tokio::test]
async fn a_run_that_waits_for_more_permits_than_a_lowered_limit_ends_and_says_why() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let jobs = Semaphore::new(&client, "jobs", 4);
    let _held = jobs.permits(2).acquire().await?;
    let waits = echo(&server, "--grace 0s --semaphore jobs --limit 4 --permits 3");
    let lowered = async {
        waiting(&jobs, 1).await?;
        ensure!(jobs.set_limit(2).await?);
        Ok(())
    };
    let (ended, ()) = tokio::try_join!(waits, lowered)?;
    assert_printed!(ended, @r#"
    ! lockkeeper: "jobs" now has 2 permits, fewer than requested: ask for fewer --permits, or raise the limit with `lockkeeper limit`
    => 64
    "#);
    Ok(())
}

#[tokio::test]
async fn a_lock_and_a_semaphore_are_taken_both_or_not_at_all() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let jobs = Semaphore::new(&client, "jobs", 1);
    let both = "--reenter --lock b --semaphore jobs --lock a --limit 1";
    let held = jobs.acquire().await?;
    let refused = echo(&server, &format!("{both} --no-wait")).await?;
    ensure!(
        refused.code == Some(75) && refused.out.is_empty(),
        "{refused}"
    );
    ensure!(
        refused.err.contains("\"jobs\" has 1 of 1 permits held by "),
        "{refused}"
    );
    let kept = ["EXISTS", "lockkeeper:a", "lockkeeper:b"];
    ensure!(
        server.command(&kept).await?.into_integer()? == 0,
        "it holds a part"
    );
    held.release().await?;

    // A run inside this one acquires the lock again, but gets no permit of the semaphore.
    let script = "echo \"$LOCKKEEPER_NAME\"; echo \"$LOCKKEEPER_KIND\"; set -- $LOCKKEEPER_FENCE; echo $#; \
                  \"$0\" run --no-wait --reenter --lock a -- echo inside; \
                  \"$0\" run --no-wait --reenter --lock a --semaphore jobs --limit 1 -- echo twice; echo $?";
    assert_printed!(shell(&server, both, script).await?, @r#"
    b
    a
    jobs
    reentrant
    reentrant
    semaphore
    3
    inside
    75
    ! lockkeeper: "jobs" has 1 of 1 permits held by <machine>:<pid>
    "#);
    Ok(())
}

#[tokio::test]
async fn permits_and_limit_are_listed_and_shown() -> Result<()> {
    let server = Server::start().await?;
    let client = db7(&server).await?;
    let jobs = Semaphore::new(&client, "jobs", 8);
    let _one = jobs.acquire().await?;
    // The longest lease comes first.
    let _four = jobs.permits(4).acquire().ttl(2 * LIMIT).await?;
    let listed = ask(&server, "ls --json").await?.json()?;
    ensure!(listed[0]["limit"] == 8, "{listed:?}");
    assert_printed!(asked(&server, &["ls", "inspect jobs"]).await?, @"
    $ ls
    NAME   KIND   MODE   HOLDER   LEFT   TOKEN   WAITERS
    jobs   semaphore   5 of 8 permits   db7:99 and 1 more   <left>   -   0
    $ inspect jobs
    jobs: semaphore, 5 of 8 permits, token -, since unknown
    HOLDER   MODE   STATE   LEFT   CLAIM
    db7:99   4 permits   held   <left>   <client>:3/<claim>
    db7:99   1 permit   held   <left>   <client>:2/<claim>
    ");
    Ok(())
}
