//! Runs under several locks at once: all of them or none.

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use lockkeeper::Mutex;
use lockkeeper_core::Name;
use lockkeeper_testkit::server::Server;

use crate::printed::{ask, end_of, shell};
use crate::support::{Run, command, run, take};

const BOTH: &str = "--lock b --lock a";

#[tokio::test]
async fn a_program_runs_under_all_its_locks_or_not_at_all() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let held = Mutex::new(&client, "a").acquire().await?;
    for patience in ["--no-wait", "--wait 200ms"] {
        let line = format!("run {patience} {BOTH} -- echo ran");
        let refused = ask(&server, &line).await?;
        ensure!(
            refused.code == Some(75) && refused.out.is_empty(),
            "{refused}"
        );
        ensure!(refused.err.contains("\"a\" is held by "), "{refused}");
        let kept = server.command(&["EXISTS", "lockkeeper:b"]).await?;
        ensure!(kept.into_integer()? == 0, "it holds a part");
    }
    held.release().await?;

    let show = "echo \"$LOCKKEEPER_NAME\"; echo \"$LOCKKEEPER_FENCE\"";
    let granted = shell(&server, &format!("{BOTH} --lock b"), show).await?;
    let lines: Vec<&str> = granted.out.lines().collect();
    ensure!(lines.len() == 4 && lines[..2] == ["b", "a"]);
    for (name, token) in [("b", lines[2]), ("a", lines[3])] {
        let counter = Name::new("lockkeeper", name)?.counter();
        ensure!(server.command(&["GET", &counter]).await?.into_text()? == token);
    }
    let left = ["EXISTS", "lockkeeper:a", "lockkeeper:b"];
    ensure!(server.command(&left).await?.into_integer()? == 0);
    Ok(())
}

#[tokio::test]
async fn runs_that_name_their_locks_in_any_order_exclude_one_another_and_all_end() -> Result<()> {
    let server = Server::start().await?;
    let folder = tempfile::tempdir()?;
    let count = folder.path().join("count");
    // Without a lock, two runs would read the same number.
    let add = "read -r n < \"$0\"; sleep 0.02; echo $((n + 1)) > \"$0\"";
    let names = [["x", "a", "b"], ["b", "x", "a"], ["a", "b", "x"]];
    for kind in ["", "--fair", "--exclusive"] {
        std::fs::write(&count, "0\n")?;
        let runs = names.iter().cycle().take(6).map(async |[one, two, three]| {
            let options = format!("{kind} --lock {one} --lock {two} --lock {three}");
            let words = run(&options, &["sh", "-c", add]);
            end_of(command(&server.url(), &words).arg(&count)).await
        });
        for ended in try_join_all(runs).await? {
            ensure!(ended.code == Some(0), "{ended}");
        }
        let counted = std::fs::read_to_string(&count)?;
        ensure!(counted == "6\n", "{kind:?}: {counted}");
        server.command(&["FLUSHALL"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn when_one_lock_is_lost_the_others_are_kept_until_the_program_is_dead() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    // The program ends when the test allows it.
    let script = "trap 'read -r _; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    for kind in ["", "--fair"] {
        let options = format!("{BOTH} {kind} --ttl 10m --grace 3m");
        let mut run = Run::shell(&server, &options, script)?;
        run.says("ready").await?;
        take(&client, "a").await?;
        let told = run.event("terminating").await?;
        let reason = told["reason"].as_str().unwrap_or_default();
        ensure!(reason.starts_with("\"a\": "), "{reason}");
        let kept = server.command(&["EXISTS", "lockkeeper:b"]).await?;
        ensure!(kept.into_integer()? == 1, "b was let go under the program");
        ensure!(run.close().await? == 76);
        let kept = server.command(&["EXISTS", "lockkeeper:b"]).await?;
        ensure!(kept.into_integer()? == 0, "b is left behind");
    }
    Ok(())
}
