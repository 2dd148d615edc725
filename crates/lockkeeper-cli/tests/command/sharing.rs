//! Runs that share a lock, and runs that hold it alone.

use anyhow::{Context as _, Result, ensure};
use lockkeeper::RwLock;
use lockkeeper_testkit::server::Server;

use crate::support::{Run, command, said, until};

/// A run that lasts until its stdin ends. It has a label, so that messages show which run they mean.
fn job(server: &Server, label: &str, mode: &str) -> Result<Run> {
    let words = ["--label", label, mode, "--lock", "prices", "--", "cat"];
    Run::start(server, &words)
}

/// Waits until the program of a run has started, and returns the token of the run.
async fn started(run: &mut Run) -> Result<u64> {
    let granted = run.event("granted").await?;
    run.event("started").await?;
    granted["fence"].as_u64().context("no token")
}

async fn end(mut run: Run) -> Result<()> {
    drop(run.child.stdin.take());
    ensure!(run.code().await? == 0);
    Ok(())
}

#[tokio::test]
async fn runs_that_share_work_at_once_and_one_that_is_alone_gets_in_before_later_ones() -> Result<()>
{
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let lock = RwLock::new(&client, "prices");
    let mut one = job(&server, "report one", "--shared")?;
    let phase = started(&mut one).await?;
    let mut two = job(&server, "report two", "-s")?;
    ensure!(started(&mut two).await? == phase);

    let mut alone = job(&server, "load", "--exclusive")?;
    until("it waits", async || Ok(lock.queue_len().await? == 1)).await?;
    let mut late = job(&server, "late", "--shared")?;
    until("it waits behind", async || Ok(lock.queue_len().await? == 2)).await?;
    end(one).await?;
    ensure!(lock.queue_len().await? == 2, "it came beside a reader");
    end(two).await?;
    let write = started(&mut alone).await?;
    ensure!(write > phase);
    ensure!(lock.queue_len().await? == 1, "the late one passed it");
    let seen = client.inspect("prices").await?;
    ensure!(
        seen.holders.len() == 1 && !seen.holders[0].shared,
        "{seen:?}"
    );
    end(alone).await?;
    ensure!(started(&mut late).await? > write);
    end(late).await
}

#[tokio::test]
async fn a_conflict_names_all_who_share_and_says_when_a_waiter_is_the_reason() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let lock = RwLock::new(&client, "prices");
    let mut held = Vec::new();
    for label in ["report one", "report two"] {
        let mut run = job(&server, label, "--shared")?;
        started(&mut run).await?;
        held.push(run);
    }
    let ask = async |words: &[&str]| {
        let job = ["--lock", "prices", "--", "echo", "ran"];
        said(&server.url(), &[&["run"], words, &job].concat()).await
    };
    for words in [&["-x", "--no-wait"][..], &["-x", "--wait", "200ms"]] {
        let refused = ask(words).await?;
        ensure!(
            refused.code == Some(75) && refused.out.is_empty(),
            "{refused:?}"
        );
        ensure!(
            refused.err.contains("\"prices\" is shared by ") && !refused.err.contains("waits"),
            "{refused:?}"
        );
        for label in ["report one", "report two"] {
            ensure!(refused.err.contains(label), "{refused:?}");
        }
    }
    let joined = ask(&["--shared", "--no-wait"]).await?;
    ensure!(
        joined.code == Some(0) && joined.out == "ran\n",
        "{joined:?}"
    );

    let mut alone = job(&server, "load", "--exclusive")?;
    until("it waits", async || Ok(lock.queue_len().await? == 1)).await?;
    let behind = ask(&["--shared", "--no-wait"]).await?;
    ensure!(
        behind.code == Some(75)
            && behind
                .err
                .contains("another waits in front to hold it alone"),
        "{behind:?}"
    );
    for run in held {
        end(run).await?;
    }
    started(&mut alone).await?;
    for mode in ["--shared", "--exclusive"] {
        let refused = ask(&[mode, "--no-wait", "-E", "9"]).await?;
        ensure!(refused.code == Some(9), "{refused:?}");
        ensure!(
            refused.err.contains("\"prices\" is held by ") && refused.err.contains(" load"),
            "{refused:?}"
        );
    }
    // The main key of a writer does not look like that of a mutex.
    let mistaken = ask(&["--no-wait"]).await?;
    ensure!(
        mistaken.code == Some(64) && mistaken.out.is_empty(),
        "{mistaken:?}"
    );
    end(alone).await
}

#[tokio::test]
async fn a_program_knows_its_mode_and_one_inside_knows_its_own() -> Result<()> {
    let server = Server::start().await?;
    let show = "echo \"$LOCKKEEPER_KIND ${LOCKKEEPER_MODE-none}\"";
    for (mode, name) in [("--shared", "shared"), ("-x", "exclusive")] {
        let script = format!("{show}; \"$0\" run --lock other -- sh -c '{show}'");
        let this = env!("CARGO_BIN_EXE_lockkeeper");
        let words = ["run", "--json", mode, "--lock", "prices", "--"];
        let words = [&words[..], &["sh", "-c", &script, this]].concat();
        let output = command(&server.url(), &words).output().await?;
        let out = String::from_utf8(output.stdout)?;
        ensure!(out == format!("rwlock {name}\nmutex none\n"), "{out}");
        let events = String::from_utf8(output.stderr)?;
        ensure!(
            events.contains(&format!(r#""kind":"rwlock","mode":"{name}""#)),
            "{events}"
        );
    }
    Ok(())
}
