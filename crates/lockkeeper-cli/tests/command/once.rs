//! Programs that run once per slot: what is stored about them, and which run follows when one dies.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use lockkeeper::{Mutex, Once};
use lockkeeper_testkit::server::Server;
use rustix::process::Signal;
use serde_json::Value;
use tokio::time::timeout;

use crate::look::json;
use crate::support::{LIMIT, Run, Said, command, said};

const DAY: Duration = Duration::from_secs(86_400);

/// Runs `lockkeeper run --lock job` with these further arguments, and a program that prints that it ran.
async fn echo(server: &Server, words: &[&str]) -> Result<Said> {
    let words = [&["run", "--lock", "job"], words, &["--", "echo", "ran"]];
    said(&server.url(), &words.concat()).await
}

/// Runs the same with a shell script as the program.
async fn shell(server: &Server, words: &[&str], program: &str) -> Result<Said> {
    let words = [
        &["run", "--lock", "job"],
        words,
        &["--", "sh", "-c", program],
    ];
    said(&server.url(), &words.concat()).await
}

async fn history(server: &Server) -> Result<Vec<Value>> {
    json(server, &["history", "job"]).await
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
            ensure!(
                job.code == Some(0) && job.out == printed,
                "{words:?}: {job:?}"
            );
        }
        ensure!(json(&server, &["history", "report"]).await?.len() == 1);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_slot_that_is_done_is_not_run_again_and_another_one_is() -> Result<()> {
    let server = Server::start().await?;
    let first = shell(&server, &["--slot", "a"], "echo \"ran $LOCKKEEPER_SLOT\"").await?;
    ensure!(
        first.code == Some(0) && first.out == "ran a\n" && first.err.is_empty(),
        "{first:?}"
    );
    let again = echo(&server, &["--slot", "a"]).await?;
    ensure!(
        again.code == Some(0) && again.out.is_empty() && again.err.is_empty(),
        "{again:?}"
    );
    let told = echo(&server, &["--slot", "a", "--json"]).await?;
    let event: Value = serde_json::from_str(told.err.lines().last().context("no event")?)?;
    ensure!(
        event["event"] == "done" && event["name"] == "job" && event["slot"] == "a",
        "{told:?}"
    );
    let other = echo(&server, &["--slot", "b"]).await?;
    ensure!(other.code == Some(0) && other.out == "ran\n", "{other:?}");
    // A run without slots inside a program with a slot does not pass the slot on.
    let url = server.url();
    let mut inside = command(
        &url,
        &["run", "--lock", "x", "--", "printenv", "LOCKKEEPER_SLOT"],
    );
    let inside = inside.env("LOCKKEEPER_SLOT", "a").output().await?;
    ensure!(inside.status.code() == Some(1), "{inside:?}");
    Ok(())
}

#[tokio::test]
async fn a_period_is_done_once_and_all_that_is_kept_of_it_ends() -> Result<()> {
    let outs = on_one_day(async |server| {
        let mut outs = Vec::new();
        for _ in 0..2 {
            let said = echo(&server, &["--once-per", "1d", "--history", "2d"]).await?;
            ensure!(said.code == Some(0), "{said:?}");
            outs.push(said.out);
        }
        let slots = history(&server).await?;
        ensure!(slots.len() == 1 && slots[0]["slot"] == day(0), "{slots:?}");
        for key in server.command(&["KEYS", "*"]).await?.into_texts()? {
            let left = server.command(&["PTTL", &key]).await?.into_integer()?;
            ensure!(left > 0, "{key} does not end");
        }
        Ok(outs)
    });
    ensure!(outs.await? == ["ran\n", ""]);
    Ok(())
}

#[tokio::test]
async fn of_machines_that_start_together_one_runs_and_all_end_well() -> Result<()> {
    let server = Server::start().await?;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let fleet = (0..4).map(|_| {
        let words = ["run", "--lock", "job", "--slot", "a", "--"];
        let program = ["sh", "-c", "echo ran >> \"$0\"; sleep 0.2"];
        let mut command = command(&server.url(), &[&words[..], &program].concat());
        command.arg(&log);
        async move { anyhow::Ok(command.status().await?) }
    });
    let ended = timeout(LIMIT, try_join_all(fleet)).await??;
    ensure!(ended.iter().all(|status| status.success()), "{ended:?}");
    ensure!(std::fs::read_to_string(log)? == "ran\n");
    Ok(())
}

#[tokio::test]
async fn a_machine_that_dies_in_the_middle_is_followed_by_one_that_waits() -> Result<()> {
    let server = Server::start().await?;
    let words = ["--lock", "job", "--slot", "a", "--ttl", "2s", "--", "cat"];
    let mut first = Run::start(&server, &words)?;
    let dead = first.event("started").await?;
    let mut second = Run::start(&server, &words)?;
    second.event("asking").await?;
    let meanwhile = echo(&server, &["--slot", "a", "--no-wait"]).await?;
    ensure!(meanwhile.code == Some(75), "{meanwhile:?}");

    first.signal(Signal::KILL)?;
    first.status().await?;
    let granted = second.event("granted").await?;
    ensure!(granted["slot"] == "a", "{granted}");
    let started = second.event("started").await?;
    ensure!(started["pid"] != dead["pid"]);
    drop(second.child.stdin.take());
    ensure!(second.code().await? == 0);
    let slots = history(&server).await?;
    ensure!(
        slots.len() == 1 && slots[0]["fence"] == granted["fence"] && slots[0]["runs"] == 1,
        "{slots:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_slot_that_failed_is_tried_again_at_once_or_when_its_time_has_come() -> Result<()> {
    let server = Server::start().await?;
    let failed = shell(&server, &["--slot", "a"], "exit 3").await?;
    ensure!(failed.code == Some(3), "{failed:?}");

    let patient = ["--slot", "a", "--retry-after", "1h"];
    let early = echo(&server, &patient).await?;
    ensure!(
        early.code == Some(75) && early.out.is_empty() && early.err.contains("exit code 3"),
        "{early:?}"
    );
    let silent = echo(&server, &[&patient[..], &["-E", "0"]].concat()).await?;
    ensure!(
        silent.code == Some(0) && silent.out.is_empty() && silent.err.is_empty(),
        "{silent:?}"
    );
    let told = echo(&server, &[&patient[..], &["--json"]].concat()).await?;
    let event: Value = serde_json::from_str(told.err.lines().last().context("no event")?)?;
    ensure!(
        event["event"] == "later" && event["left_ms"].as_u64() > Some(3_000_000),
        "{told:?}"
    );

    let again = echo(&server, &["--slot", "a"]).await?;
    ensure!(again.code == Some(0) && again.out == "ran\n", "{again:?}");
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
        let yore = day(5);
        ensure!(echo(&server, &["--slot", &yore]).await?.code == Some(0));
        let program = format!(
            "echo \"$LOCKKEEPER_SLOT\"; [ \"$LOCKKEEPER_SLOT\" != {} ] || exit 7",
            day(1)
        );
        let daily = ["--once-per", "1d", "--catch-up", "3"];
        let caught_up = shell(&server, &daily, &program).await?;
        // A slot that fails does not stop the others.
        ensure!(caught_up.code == Some(7), "{caught_up:?}");
        let ran: Vec<&str> = caught_up.out.lines().collect();
        ensure!(ran == [day(3), day(2), day(1), day(0)], "{ran:?}");
        let slots = history(&server).await?;
        let codes: Vec<_> = slots
            .iter()
            .map(|it| (it["slot"].as_str(), it["code"].as_u64()))
            .collect();
        let expected = [(0, 0), (1, 7), (2, 0), (3, 0), (5, 0)];
        let expected = expected.map(|(ago, code)| (day(ago), Some(code)));
        ensure!(
            codes.len() == 5
                && expected
                    .iter()
                    .zip(&codes)
                    .all(|((day, code), seen)| seen == &(Some(&**day), *code)),
            "{slots:?}"
        );
        // Slots before the last one that is done do not count as missed.
        let done = echo(&server, &daily).await?;
        ensure!(done.out == "ran\n", "{done:?}");
        let done = echo(&server, &daily).await?;
        ensure!(done.code == Some(0) && done.out.is_empty(), "{done:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_signal_that_asks_to_stop_ends_the_catching_up_also_if_the_program_ends_well()
-> Result<()> {
    let server = Server::start().await?;
    ensure!(echo(&server, &["--slot", &day(3)]).await?.code == Some(0));
    let program = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let words = ["--lock", "job", "--once-per", "1d", "--catch-up", "2"];
    let mut run = Run::start(
        &server,
        &[&words[..], &["--", "sh", "-c", program]].concat(),
    )?;
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
    let words = ["--lock", "job", "--slot", "a", "--", "sleep", "1000"];
    let mut run = Run::start(&server, &words)?;
    let granted = run.event("granted").await?;
    run.event("started").await?;
    let fence = granted["fence"].to_string();
    let words = ["release", "job", "--force", "--fence", &fence];
    ensure!(said(&server.url(), &words).await?.code == Some(0));
    ensure!(run.code().await? == 76);
    ensure!(history(&server).await?.is_empty());
    let next = echo(&server, &["--slot", "a"]).await?;
    ensure!(next.out == "ran\n", "{next:?}");
    Ok(())
}

#[tokio::test]
async fn the_history_is_shown_newest_first_and_moves_no_cursor() -> Result<()> {
    let server = Server::start().await?;
    let empty = said(&server.url(), &["history", "job"]).await?;
    ensure!(
        empty.code == Some(0) && empty.out.lines().count() == 1,
        "{empty:?}"
    );
    let hostile = "x\u{1b}[2J\ty\u{202e}";
    ensure!(echo(&server, &["--slot", "a"]).await?.code == Some(0));
    let words = ["--label", hostile, "--slot", hostile];
    ensure!(shell(&server, &words, "exit 3").await?.code == Some(3));

    let slots = history(&server).await?;
    let [newest, oldest] = &slots[..] else {
        anyhow::bail!("{slots:?}");
    };
    ensure!(
        newest["name"] == "job" && newest["slot"] == hostile && newest["code"] == 3,
        "{newest}"
    );
    ensure!(oldest["slot"] == "a" && oldest["code"] == 0, "{oldest}");
    let text = |of: &Value, what: &str| of[what].as_str().unwrap_or_default().to_owned();
    let time = |of: &Value, what: &str| humantime::parse_rfc3339(&text(of, what));
    ensure!(time(newest, "start")? <= time(newest, "end")?);
    ensure!(time(oldest, "end")? <= time(newest, "start")?);
    let label = format!("{}:{} {hostile}", text(newest, "host"), newest["pid"]);
    ensure!(newest["label"] == label, "{newest}");

    let shown = said(&server.url(), &["history", "job"]).await?.out;
    let lines: Vec<&str> = shown.lines().collect();
    ensure!(lines.len() == 3 && lines[0].starts_with("SLOT "), "{shown}");
    ensure!(
        lines[1].starts_with(r"x\u{1b}[2J\ty\u{202e} ") && lines[2].starts_with("a "),
        "{shown}"
    );
    ensure!(!shown.contains(['\u{1b}', '\t', '\u{202e}']), "{shown:?}");
    let raw = said(&server.url(), &["history", "job", "--json"])
        .await?
        .out;
    ensure!(!raw.contains(['\u{1b}', '\t', '\u{202e}']), "{raw:?}");
    Ok(())
}

#[tokio::test]
async fn inspect_shows_who_does_the_work_and_what_has_come_of_it() -> Result<()> {
    let server = Server::start().await?;
    let see = async || anyhow::Ok(json(&server, &["inspect", "job"]).await?.remove(0));
    ensure!(see().await?.get("result").is_none());
    let words = ["--lock", "job", "--slot", "a", "--", "sh", "-c"];
    let program = ["cat; exit 3"];
    let mut run = Run::start(&server, &[&words[..], &program].concat())?;
    run.event("started").await?;
    let running = see().await?;
    ensure!(
        running["kind"] == "once" && running.get("result").is_none(),
        "{running}"
    );
    drop(run.child.stdin.take());
    ensure!(run.code().await? == 3);
    let failed = see().await?;
    let result = &failed["result"];
    ensure!(
        failed["kind"].is_null() && result["state"] == "failed" && result["slot"] == "a",
        "{failed}"
    );
    ensure!(echo(&server, &["--slot", "a"]).await?.code == Some(0));
    let done = see().await?["result"].take();
    ensure!(
        done["state"] == "done" && done["fence"].as_u64() > result["fence"].as_u64(),
        "{done}"
    );
    let text = said(&server.url(), &["inspect", "job"]).await?.out;
    let line = format!(
        "job: slot a done at {} by ",
        done["at"].as_str().unwrap_or("?")
    );
    ensure!(
        text.contains(&line) && text.contains("stored for 29days"),
        "{text}"
    );

    // `inspect` also shows the result of work that was not done by the command.
    let client = lockkeeper::connect(&server.url()).await?;
    let prices = Once::new(&client, "prices");
    let made = prices.get_or_run(async |_| Ok::<_, ()>(b"{}".to_vec()));
    ensure!(made.await.is_ok_and(|it| it.ran()));
    let seen = &json(&server, &["inspect", "prices"]).await?[0]["result"];
    ensure!(
        seen["state"] == "done" && seen["bytes"] == 2 && seen.get("slot").is_none(),
        "{seen}"
    );
    let broken = Once::new(&client, "broken").retry_after(LIMIT);
    ensure!(broken.get_or_run(async |_| Err(())).await.is_err());
    let seen = &json(&server, &["inspect", "broken"]).await?[0]["result"];
    ensure!(
        seen["state"] == "failed" && seen["bytes"].is_null(),
        "{seen}"
    );
    Ok(())
}

#[tokio::test]
async fn a_name_that_keeps_something_else_is_refused_and_left_alone() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let other = Once::new(&client, "job");
    let ran = other.get_or_run(async |_| Ok::<_, ()>(b"17 orders".to_vec()));
    ensure!(ran.await.is_ok_and(|it| it.ran()));
    for said in [
        echo(&server, &["--slot", "a"]).await?,
        said(&server.url(), &["history", "job"]).await?,
    ] {
        ensure!(
            said.code == Some(64) && said.out.is_empty() && said.err.contains("other work"),
            "{said:?}"
        );
    }
    let kept = other.peek().await?.and_then(|record| record.value);
    ensure!(kept.as_deref() == Some(&b"17 orders"[..]));

    ensure!(other.forget().await?);
    let _held = Mutex::new(&client, "job").acquire().await?;
    let said = echo(&server, &["--slot", "a"]).await?;
    ensure!(said.code == Some(64) && said.out.is_empty(), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn options_that_do_not_fit_are_refused_before_anybody_is_asked() -> Result<()> {
    let (nobody, long) = ("redis://127.0.0.1:1", "x".repeat(257));
    for (words, reason) in [
        (&["--lock", "a", "--once-per", "7h"][..], "divides a day"),
        (&["--lock", "a", "--once-per", "soon"], "--once-per"),
        (&["--once-per", "1d"], "--lock"),
        (&["--lock", "a", "--lock", "b", "--slot", "x"], "one --lock"),
        (&["--lock", "a", "--slot", "x", "--fair"], "--fair"),
        (
            &["--lock", "a", "--slot", "x", "--min-hold", "1s"],
            "--min-hold",
        ),
        (&["--lock", "a", "--catch-up", "1"], "--once-per"),
        (&["--lock", "a", "--history", "1d"], "--slot"),
        (&["--lock", "a", "--once-per", "0s"], "whole seconds"),
        (&["--lock", "a", "--once-per", "500ms"], "whole seconds"),
        (&["--lock", "a", "--once-per=-1d"], "--once-per"),
        (
            &["--lock", "a", "--once-per", "1d", "--catch-up", "100"],
            "at most 99",
        ),
        (
            &["--lock", "a", "--once-per", "1d", "--catch-up=-1"],
            "--catch-up",
        ),
        (
            &["--lock", "a", "--slot", "x", "--catch-up", "1"],
            "--catch-up",
        ),
        (&["--lock", "a", "--slot", ""], "1 to 256 bytes"),
        (&["--lock", "a", "--slot", &long], "this one has 257"),
        (
            &["--lock", "a", "--slot", "x", "--retry-after", "31d"],
            "--retry-after",
        ),
        (
            &["--lock", "a", "--slot", "x", "--once-per", "1d"],
            "--once-per",
        ),
        (
            &["--lock", "a", "--once-per", "1d", "--history", "1h"],
            "1day are needed",
        ),
    ] {
        let words = [&["run"], words, &["--", "true"]].concat();
        let said = said(nobody, &words).await?;
        ensure!(
            said.code == Some(64) && said.err.contains(reason),
            "{words:?}: {said:?}"
        );
    }
    Ok(())
}
