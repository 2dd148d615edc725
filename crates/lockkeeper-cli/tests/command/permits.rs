//! Runs that take permits of a semaphore, and its limit.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use lockkeeper::{Client, Semaphore};
use lockkeeper_testkit::server::Server;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use crate::look::json;
use crate::support::{LIMIT, Run, Said, command, said, until};

/// A run that lasts until its stdin ends.
fn job(server: &Server, label: &str, limit: &str, permits: &str) -> Result<Run> {
    let words = ["--label", label, "--semaphore", "jobs", "--limit", limit];
    let program = ["--permits", permits, "--", "cat"];
    Run::start(server, &[&words[..], &program].concat())
}

async fn started(run: &mut Run) -> Result<Value> {
    let granted = run.event("granted").await?;
    run.event("started").await?;
    Ok(granted)
}

async fn end(mut run: Run) -> Result<()> {
    drop(run.child.stdin.take());
    ensure!(run.code().await? == 0);
    Ok(())
}

/// Runs `lockkeeper run` with these further arguments and a program that prints that it ran.
async fn echo(server: &Server, words: &[&str]) -> Result<Said> {
    said(
        &server.url(),
        &[&["run"], words, &["--", "echo", "ran"]].concat(),
    )
    .await
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
    let fleet = (0..5).map(|_| {
        let words = ["run", "--semaphore", "jobs", "--limit", "2"];
        let program = ["--", "sh", "-c", work];
        let mut command = command(&server.url(), &[&words[..], &program].concat());
        command.arg(&log);
        async move { anyhow::Ok(command.status().await?) }
    });
    let ended = timeout(LIMIT, try_join_all(fleet)).await??;
    ensure!(ended.iter().all(|status| status.success()), "{ended:?}");
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
        let mut run = job(&server, label, "2", "1")?;
        started(&mut run).await?;
        runs.push(run);
    }
    let mut third = job(&server, "three", "2", "1")?;
    waiting(&jobs, 1).await?;
    let ask = async |words: &[&str]| {
        let said = said(&server.url(), &[&["limit", "jobs"], words].concat()).await?;
        ensure!(said.code == Some(0) && said.err.is_empty(), "{said:?}");
        Ok(said.out)
    };
    ensure!(ask(&[]).await? == "jobs: a limit of 2, 2 held, 1 waiting\n");
    ensure!(ask(&["3"]).await? == "jobs: a limit of 3, 3 held, 0 waiting\n");
    started(&mut third).await?;
    ensure!(ask(&["1"]).await? == "jobs: a limit of 1, 3 held, 0 waiting\n");
    let seen = json(&server, &["limit", "jobs"]).await?;
    ensure!(
        seen == [json!({ "name": "jobs", "limit": 1, "held": 3, "waiters": 0 })],
        "{seen:?}"
    );

    let mut fourth = job(&server, "four", "2", "1")?;
    waiting(&jobs, 1).await?;
    end(third).await?;
    for run in runs {
        ensure!(jobs.state().await?.is_some_and(|it| it.waiters == 1));
        end(run).await?;
    }
    started(&mut fourth).await?;
    end(fourth).await
}

#[tokio::test]
async fn the_limit_of_a_semaphore_that_nobody_uses_is_said_to_be_that_of_whoever_comes()
-> Result<()> {
    let server = Server::start().await?;
    let shown = said(&server.url(), &["limit", "jobs"]).await?;
    ensure!(
        shown.code == Some(0) && shown.out.contains("the next run sets the limit"),
        "{shown:?}"
    );
    let changed = said(&server.url(), &["limit", "jobs", "12"]).await?;
    ensure!(
        changed.code == Some(0) && changed.out.contains("nothing was changed"),
        "{changed:?}"
    );
    let seen = json(&server, &["limit", "jobs", "12"]).await?;
    ensure!(
        seen == [json!({ "name": "jobs", "limit": null, "held": 0, "waiters": 0 })],
        "{seen:?}"
    );
    let zero = said(&server.url(), &["limit", "jobs", "0"]).await?;
    ensure!(
        zero.code == Some(64) && zero.err.contains("it must be at least 1"),
        "{zero:?}"
    );
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
    let mut heavy = job(&server, "the heavy one", "4", "3")?;
    started(&mut heavy).await?;
    let two = ["--semaphore", "jobs", "--limit", "4", "--permits", "2"];
    for patience in [&["--no-wait"][..], &["--wait", "200ms"]] {
        let refused = echo(&server, &[&two[..], patience].concat()).await?;
        ensure!(
            refused.code == Some(75) && refused.out.is_empty(),
            "{refused:?}"
        );
        ensure!(
            refused.err.contains("\"jobs\" has 3 of 4 permits held by ")
                && refused.err.contains(" the heavy one")
                && !refused.err.contains("waits in front"),
            "{refused:?}"
        );
    }
    let mut behind = job(&server, "behind", "4", "2")?;
    waiting(&jobs, 1).await?;
    let one = ["--semaphore", "jobs", "--limit", "4", "--no-wait"];
    let refused = echo(&server, &one).await?;
    ensure!(
        refused.code == Some(75) && refused.err.contains("another waits in front"),
        "{refused:?}"
    );
    end(heavy).await?;
    started(&mut behind).await?;
    let joined = echo(&server, &one).await?;
    ensure!(
        joined.code == Some(0) && joined.out == "ran\n",
        "{joined:?}"
    );
    end(behind).await
}

#[tokio::test]
async fn a_run_with_another_limit_works_by_the_one_that_stands_and_says_so() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _held = Semaphore::new(&client, "jobs", 2).acquire().await?;
    let mut run = job(&server, "eight", "8", "1")?;
    let other = run.event("other-limit").await?;
    ensure!(other["name"] == "jobs" && other["limit"] == 2, "{other}");
    started(&mut run).await?;
    end(run).await?;

    let eight = ["--semaphore", "jobs", "--limit", "8", "--no-wait"];
    let told = echo(&server, &eight).await?;
    ensure!(told.code == Some(0) && told.out == "ran\n", "{told:?}");
    ensure!(
        told.err.matches("with a limit of 2").count() == 1,
        "{told:?}"
    );
    for patience in [&["--no-wait"][..], &["--wait", "1m"]] {
        let three = ["--semaphore", "jobs", "--limit", "8", "--permits", "3"];
        let refused = echo(&server, &[&three[..], patience].concat()).await?;
        ensure!(
            refused.code == Some(64) && refused.out.is_empty(),
            "{refused:?}"
        );
        ensure!(
            refused.err.contains("\"jobs\" now has 2 permits")
                && refused.err.contains("`lockkeeper limit`"),
            "{refused:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_run_that_waits_for_more_permits_than_a_lowered_limit_ends_and_says_why() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let jobs = Semaphore::new(&client, "jobs", 4);
    let _held = jobs.permits(2).acquire().await?;
    let three = ["--semaphore", "jobs", "--limit", "4", "--permits", "3"];
    let waits = async { echo(&server, &three).await };
    let lowered = async {
        waiting(&jobs, 1).await?;
        ensure!(jobs.set_limit(2).await?);
        Ok(())
    };
    let (ended, ()) = tokio::try_join!(waits, lowered)?;
    ensure!(ended.code == Some(64) && ended.out.is_empty(), "{ended:?}");
    ensure!(
        ended.err.contains("\"jobs\" now has 2 permits"),
        "{ended:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_program_knows_its_permits_and_one_inside_knows_its_own() -> Result<()> {
    let server = Server::start().await?;
    let show = "echo \"$LOCKKEEPER_KIND ${LOCKKEEPER_PERMITS-none}\"";
    let script = format!("{show}; \"$0\" run --lock other -- sh -c '{show}'");
    let this = env!("CARGO_BIN_EXE_lockkeeper");
    let words = ["run", "--json", "--semaphore", "jobs", "--limit", "8"];
    let program = ["--permits", "3", "--", "sh", "-c", &script, this];
    let said = said(&server.url(), &[&words[..], &program].concat()).await?;
    ensure!(said.out == "semaphore 3\nmutex none\n", "{said:?}");
    ensure!(
        said.err.contains(r#""kind":"semaphore","permits":3"#),
        "{said:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_lock_and_a_semaphore_are_taken_both_or_not_at_all() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let jobs = Semaphore::new(&client, "jobs", 1);
    let both = ["--reenter", "--lock", "b", "--semaphore", "jobs"];
    let both = [&both[..], &["--lock", "a", "--limit", "1"]].concat();
    let held = jobs.acquire().await?;
    let refused = echo(&server, &[&both[..], &["--no-wait"]].concat()).await?;
    ensure!(
        refused.code == Some(75) && refused.err.contains("\"jobs\" has 1 of 1 permits held by "),
        "{refused:?}"
    );
    let kept = server
        .command(&["EXISTS", "lockkeeper:a", "lockkeeper:b"])
        .await?;
    ensure!(kept.into_integer()? == 0, "it holds a part");
    held.release().await?;

    // A run inside this one acquires the lock again, but gets no permit of the semaphore.
    let script = "echo \"$LOCKKEEPER_NAME\"; echo \"$LOCKKEEPER_KIND\"; set -- $LOCKKEEPER_FENCE; echo $#; \
                  \"$0\" run --no-wait --reenter --lock a -- echo inside; \
                  \"$0\" run --no-wait --reenter --lock a --semaphore jobs --limit 1 -- echo twice; echo $?";
    let this = env!("CARGO_BIN_EXE_lockkeeper");
    let words = [&["run"], &both[..], &["--", "sh", "-c", script, this]].concat();
    let granted = said(&server.url(), &words).await?;
    let expected = "b\na\njobs\nreentrant\nreentrant\nsemaphore\n3\ninside\n75\n";
    ensure!(
        granted.code == Some(0) && granted.out == expected,
        "{granted:?}"
    );
    Ok(())
}

#[tokio::test]
async fn permits_and_limit_are_listed_and_shown() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), Client::builder().label("db7:99")).await?;
    let jobs = Semaphore::new(&client, "jobs", 8);
    let one = jobs.acquire().await?;
    let _four = jobs.permits(4).acquire().await?;
    let seen = &json(&server, &["inspect", "jobs"]).await?[0];
    ensure!(seen["kind"] == "semaphore" && seen["limit"] == 8, "{seen}");
    let holders = seen["holders"].as_array().context("no holders")?;
    let mut permits: Vec<_> = holders.iter().map(|it| it["permits"].as_u64()).collect();
    permits.sort_unstable();
    ensure!(permits == [Some(1), Some(4)], "{seen}");
    ensure!(json(&server, &["ls"]).await?[0]["limit"] == 8);

    let text = said(&server.url(), &["inspect", "jobs"]).await?.out;
    ensure!(
        text.starts_with("jobs: semaphore, 5 of 8 permits, token -, since unknown\n"),
        "{text}"
    );
    ensure!(
        text.contains("   1 permit    ") && text.contains("   4 permits   "),
        "{text}"
    );
    let text = said(&server.url(), &["ls"]).await?.out;
    ensure!(text.contains("   5 of 8 permits   "), "{text}");
    let mut watch = command(&server.url(), &["watch", "jobs"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn()?;
    let out = watch.stdout.take().context("no output")?;
    let line = timeout(LIMIT, BufReader::new(out).lines().next_line()).await??;
    let line = line.context("it ended")?;
    ensure!(
        line.contains("  5 of 8 permits: held with ")
            && line.contains("held with 4 permits by db7:99"),
        "{line}"
    );
    drop(one);
    Ok(())
}
