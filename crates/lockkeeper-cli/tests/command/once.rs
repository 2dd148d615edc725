//! Programs that run once per slot: what is stored about them, and which run follows when one dies.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use lockkeeper::{Mutex, Once};
use lockkeeper_testkit::server::Server;
use rustix::process::Signal;
use serde_json::Value;

use crate::printed::{Said, ask, asked, assert_printed, end_of, said, shell};
use crate::support::{LIMIT, Run, command, run, with_ttl};

const DAY: Duration = Duration::from_secs(86_400);

/// Runs `lockkeeper run --lock job` with these further options, and a program that prints that it ran.
async fn echo(server: &Server, options: &str) -> Result<Said> {
    ask(server, &format!("run --lock job {options} -- echo ran")).await
}

/// Runs the same with a script for a shell.
async fn job(server: &Server, options: &str, script: &str) -> Result<Said> {
    shell(server, &format!("--lock job {options}"), script).await
}

async fn history(server: &Server) -> Result<Vec<Value>> {
    ask(server, "history job --json").await?.json()
}

/// Returns the slot of the day that was this many days ago.
fn day(ago: u32) -> String {
    let day = humantime::format_rfc3339_seconds(SystemTime::now() - DAY * ago).to_string();
    format!("{}T00:00:00Z", &day[..10])
}

/// Runs a test that must not span midnight UTC. If the day ends meanwhile, the test runs again.
async fn on_one_day<T>(test: impl AsyncFn(Server) -> Result<T>) -> Result<T> {
    loop {
        let today = day(0);
        let outcome = test(Server::start().await?).await;
        if today == day(0) {
            return outcome;
        }
    }
}

/// Runs the lines with which cron, systemd and Kubernetes start the job in the examples, with another program.
#[tokio::test]
async fn the_lines_of_the_examples_run_a_job_once() -> Result<()> {
    let cron = include_str!("../../../../docs/scheduled-jobs.md");
    let unit = include_str!("../../../../examples/systemd/report.service");
    let manifest = include_str!("../../../../examples/kubernetes/cronjob.yaml");
    let line = |text: &'static str, start: &str| {
        let mut lines = text.lines().map(str::trim);
        lines
            .find_map(|line| line.strip_prefix(start))
            .context("no such line")
    };
    let words = |line: &'static str| line.split_whitespace().collect::<Vec<_>>();
    let lines = [
        words(line(cron, "0 2 * * *")?),
        words(line(unit, "ExecStart=")?),
        serde_json::from_str(line(manifest, "command: ")?)?,
    ];
    on_one_day(async |server| {
        for (number, words) in lines.iter().enumerate() {
            let program = words.iter().position(|word| *word == "--");
            let (own, _) = words.split_at(program.context("no program")?);
            ensure!(own[0].ends_with("lockkeeper"), "{words:?}");
            let job = said(&server.url(), &[&own[1..], &["--", "echo", "ran"]].concat()).await?;
            // All lines name the same job, so only the first one runs it.
            let printed = if number == 0 { "ran\n" } else { "" };
            ensure!(job.to_string() == printed, "{words:?}: {job}");
        }
        ensure!(ask(&server, "history report --json").await?.json()?.len() == 1);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_slot_that_is_done_is_not_run_again_and_another_one_is() -> Result<()> {
    let server = Server::start().await?;
    let first = job(&server, "--slot a", "echo \"ran $LOCKKEEPER_SLOT\"").await?;
    assert_printed!(first, @"ran a");
    assert_printed!(echo(&server, "--slot a").await?, @"");
    assert_printed!(echo(&server, "--slot a --json").await?, @r#"
    ! {"at":"<time>","ms":<ms>,"event":"asking","name":"job"}
    ! {"at":"<time>","ms":<ms>,"event":"done","name":"job","slot":"a"}
    "#);
    assert_printed!(echo(&server, "--slot b").await?, @"ran");
    Ok(())
}

#[tokio::test]
async fn a_period_is_done_once_and_all_that_is_kept_of_it_ends() -> Result<()> {
    on_one_day(async |server| {
        for expected in ["ran\n", ""] {
            let said = echo(&server, "--once-per 1d --history 2d").await?;
            ensure!(said.to_string() == expected, "{said}");
        }
        let slots = history(&server).await?;
        ensure!(slots.len() == 1 && slots[0]["slot"] == day(0), "{slots:?}");
        for key in server.command(&["KEYS", "*"]).await?.into_texts()? {
            let left = server.command(&["PTTL", &key]).await?.into_integer()?;
            ensure!(left > 0, "{key} does not end");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn of_machines_that_start_together_one_runs_and_all_end_well() -> Result<()> {
    let server = Server::start().await?;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let fleet = (0..4).map(async |_| {
        let program = ["sh", "-c", "echo ran >> \"$0\"; sleep 0.2"];
        let words = run("--lock job --slot a", &program);
        end_of(command(&server.url(), &words).arg(&log)).await
    });
    for ended in try_join_all(fleet).await? {
        ensure!(ended.code == Some(0), "{ended}");
    }
    ensure!(std::fs::read_to_string(log)? == "ran\n");
    Ok(())
}

#[tokio::test]
async fn a_machine_that_dies_in_the_middle_is_followed_by_one_that_waits() -> Result<()> {
    with_ttl(Duration::from_secs(2), async |ttl| {
        let server = Server::start().await?;
        let start = |ttl: &str| {
            let options = format!("--lock job --slot a --ttl {ttl}");
            Run::start(&server, &options, &["cat"])
        };
        let mut first = start(&format!("{ttl:?}"))?;
        let dead = first.event("started").await?;
        let mut second = start("1m")?;
        second.event("asking").await?;
        let meanwhile = echo(&server, "--slot a --no-wait").await?;
        ensure!(meanwhile.code == Some(75), "{meanwhile}");

        first.signal(Signal::KILL)?;
        first.status().await?;
        let granted = second.event("granted").await?;
        ensure!(granted["slot"] == "a", "{granted}");
        let started = second.event("started").await?;
        ensure!(started["pid"] != dead["pid"]);
        ensure!(second.close().await? == 0);
        let slots = history(&server).await?;
        ensure!(slots.len() == 1 && slots[0]["runs"] == 1, "{slots:?}");
        ensure!(slots[0]["fence"] == granted["fence"], "{slots:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_slot_that_failed_is_tried_again_at_once_or_when_its_time_has_come() -> Result<()> {
    let server = Server::start().await?;
    assert_printed!(job(&server, "--slot a", "exit 3").await?, @"=> 3");
    let early = echo(&server, "--slot a --retry-after 10h").await?;
    ensure!(early.err.contains("in 9h 5"), "{early}");
    assert_printed!(early, @r#"
    ! lockkeeper: "job": the slot "a" failed with exit code 3 on <machine>:<pid>; it can be tried again in <time>
    => 75
    "#);
    assert_printed!(echo(&server, "--slot a --retry-after 10h -E 0").await?, @"");
    assert_printed!(echo(&server, "--slot a --retry-after 10h --json").await?, @r#"
    ! {"at":"<time>","ms":<ms>,"event":"asking","name":"job"}
    ! {"at":"<time>","ms":<ms>,"event":"later","name":"job","slot":"a","left_ms":<ms>}
    => 75
    "#);
    assert_printed!(echo(&server, "--slot a").await?, @"ran");
    let slots = history(&server).await?;
    ensure!(
        slots.len() == 1 && slots[0]["code"] == 0 && slots[0]["runs"] == 2,
        "{slots:?}"
    );
    Ok(())
}

#[tokio::test]
async fn of_the_days_that_were_missed_the_newest_run_in_order() -> Result<()> {
    on_one_day(async |server| {
        ensure!(echo(&server, &format!("--slot {}", day(5))).await?.code == Some(0));
        let program = format!(
            "echo \"$LOCKKEEPER_SLOT\"; [ \"$LOCKKEEPER_SLOT\" != {} ] || exit 7",
            day(1)
        );
        let daily = "--once-per 1d --catch-up 3";
        let caught_up = job(&server, daily, &program).await?;
        // A slot that fails does not stop the others.
        ensure!(caught_up.code == Some(7), "{caught_up}");
        let ran: Vec<&str> = caught_up.out.lines().collect();
        ensure!(ran == [day(3), day(2), day(1), day(0)], "{ran:?}");
        let slots = history(&server).await?;
        let codes: Vec<_> = slots.iter().map(|it| (&it["slot"], &it["code"])).collect();
        let expected = [(0, 0), (1, 7), (2, 0), (3, 0), (5, 0)];
        let expected = expected.map(|(ago, code)| (Value::from(day(ago)), Value::from(code)));
        ensure!(codes.len() == 5, "{slots:?}");
        ensure!(
            expected
                .iter()
                .zip(codes)
                .all(|((day, code), seen)| (day, code) == seen),
            "{slots:?}"
        );
        // Slots before the last one that is done do not count as missed.
        for expected in ["ran\n", ""] {
            let done = echo(&server, daily).await?;
            ensure!(done.to_string() == expected, "{done}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_signal_that_asks_to_stop_ends_the_catching_up_also_if_the_program_ends_well()
-> Result<()> {
    let server = Server::start().await?;
    ensure!(echo(&server, &format!("--slot {}", day(3))).await?.code == Some(0));
    let program = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let options = "--lock job --once-per 1d --catch-up 2";
    let mut run = Run::shell(&server, options, program)?;
    run.says("ready").await?;
    run.signal(Signal::TERM)?;
    ensure!(run.code().await? == 0);
    let slots = history(&server).await?;
    ensure!(slots.len() == 2, "{slots:?}");
    Ok(())
}

#[tokio::test]
async fn a_program_whose_lock_was_taken_has_not_done_its_slot() -> Result<()> {
    let server = Server::start().await?;
    let mut run = Run::start(&server, "--lock job --slot a", &["sleep", "1000"])?;
    let granted = run.event("granted").await?;
    run.event("started").await?;
    let taken = format!("release job --force --fence {}", granted["fence"]);
    ensure!(ask(&server, &taken).await?.code == Some(0));
    ensure!(run.code().await? == 76);
    ensure!(history(&server).await?.is_empty());
    assert_printed!(echo(&server, "--slot a").await?, @"ran");
    Ok(())
}

#[tokio::test]
async fn the_history_is_shown_newest_first_and_moves_no_cursor() -> Result<()> {
    let server = Server::start().await?;
    assert_printed!(ask(&server, "history job").await?, @"SLOT   CODE   START   END   RUNS   BY");
    let hostile = "x\u{1b}[2J\ty\u{202e}";
    ensure!(echo(&server, "--slot a").await?.code == Some(0));
    let words = [
        "run", "--lock", "job", "--label", hostile, "--slot", hostile,
    ];
    let failed = said(
        &server.url(),
        &[&words[..], &["--", "sh", "-c", "exit 3"]].concat(),
    )
    .await?;
    ensure!(failed.code == Some(3), "{failed}");

    let slots = history(&server).await?;
    let [newest, oldest] = &slots[..] else {
        anyhow::bail!("{slots:?}");
    };
    ensure!(newest["slot"] == hostile, "{newest}");
    let time =
        |of: &Value, what: &str| humantime::parse_rfc3339(of[what].as_str().unwrap_or_default());
    ensure!(time(newest, "start")? <= time(newest, "end")?);
    ensure!(time(oldest, "end")? <= time(newest, "start")?);
    let shown = asked(&server, &["history job", "history job --json"]).await?;
    ensure!(!shown.contains(['\u{1b}', '\t', '\u{202e}']), "{shown:?}");
    assert_printed!(shown, @r#"
    $ history job
    SLOT   CODE   START   END   RUNS   BY
    x\u{1b}[2J\ty\u{202e}   3   <time>   <time>   1   <machine>:<pid> x\u{1b}[2J\ty\u{202e}
    a   0   <time>   <time>   1   <machine>:<pid>
    $ history job --json
    {"name":"job","slot":"x\u001b[2J\ty\u202e","code":3,"start":"<time>","end":"<time>","label":"<machine>:<pid> x\u001b[2J\ty\u202e","fence":<token>,"runs":1,"host":<machine>,"pid":<pid>}
    {"name":"job","slot":"a","code":0,"start":"<time>","end":"<time>","label":"<machine>:<pid>","fence":<token>,"runs":1,"host":<machine>,"pid":<pid>}
    "#);
    Ok(())
}

#[tokio::test]
async fn inspect_shows_who_does_the_work_and_what_has_come_of_it() -> Result<()> {
    let server = Server::start().await?;
    let mut run = Run::shell(&server, "--lock job --slot a", "cat; exit 3")?;
    run.event("started").await?;
    assert_printed!(ask(&server, "inspect job").await?, @"
    job: once, token <token>, since <time>
    HOLDER   MODE   STATE   LEFT   CLAIM
    <machine>:<pid>   exclusive   held   <left>   <client>:1/<claim>
    ");
    ensure!(run.close().await? == 3);
    let failed = ask(&server, "inspect job --json").await?;
    assert_printed!(failed);
    ensure!(echo(&server, "--slot a").await?.code == Some(0));
    let done = ask(&server, "inspect job --json").await?;
    let fence = |said: &Said| Ok::<_, anyhow::Error>(said.json()?[0]["result"]["fence"].as_u64());
    ensure!(fence(&done)? > fence(&failed)?, "{done}");
    assert_printed!(ask(&server, "inspect job").await?, @"
    job: free
    job: slot a done at <time> by <machine>:<pid>, token <token>, stored for <time>
    ");

    // `inspect` also shows the result of work that was not done by the command.
    let client = lockkeeper::connect(&server.url()).await?;
    let prices = Once::new(&client, "prices");
    let made = prices.get_or_run(async |_| Ok::<_, ()>(b"{}".to_vec()));
    ensure!(made.await.is_ok_and(|it| it.ran()));
    let broken = Once::new(&client, "broken").retry_after(LIMIT);
    ensure!(broken.get_or_run(async |_| Err(())).await.is_err());
    let both = ["inspect prices --json", "inspect broken --json"];
    assert_printed!(asked(&server, &both).await?);
    Ok(())
}

#[tokio::test]
async fn a_name_that_keeps_something_else_is_refused_and_left_alone() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let other = Once::new(&client, "job");
    let ran = other.get_or_run(async |_| Ok::<_, ()>(b"17 orders".to_vec()));
    ensure!(ran.await.is_ok_and(|it| it.ran()));
    let both = ["run --lock job --slot a -- echo ran", "history job"];
    assert_printed!(asked(&server, &both).await?, @r#"
    $ run --lock job --slot a -- echo ran
    ! lockkeeper: "job" is not a job of `lockkeeper run --once-per`: it stores the result of other work
    => 64
    $ history job
    ! lockkeeper: "job" is not a job of `lockkeeper run --once-per`: it stores the result of other work
    => 64
    "#);
    let kept = other.peek().await?.and_then(|record| record.value);
    ensure!(kept.as_deref() == Some(&b"17 orders"[..]));

    ensure!(other.forget().await?);
    let _held = Mutex::new(&client, "job").acquire().await?;
    assert_printed!(echo(&server, "--slot a").await?, @r#"
    ! lockkeeper: lock "job" is no once lock: its key "lockkeeper:job" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    "#);
    Ok(())
}
