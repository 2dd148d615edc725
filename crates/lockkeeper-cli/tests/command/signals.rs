//! Signals: they reach the program, and end a wait.

use anyhow::{Result, ensure};
use lockkeeper::FairLock;
use lockkeeper_testkit::server::Server;
use rustix::process::Signal;

use crate::support::{Run, THIS, until};

const ALL: [(Signal, &str); 6] = [
    (Signal::INT, "INT"),
    (Signal::TERM, "TERM"),
    (Signal::HUP, "HUP"),
    (Signal::QUIT, "QUIT"),
    (Signal::USR1, "USR1"),
    (Signal::USR2, "USR2"),
];

#[tokio::test]
async fn signals_reach_the_program() -> Result<()> {
    let server = Server::start().await?;
    for (signal, name) in ALL {
        let script = format!(
            "trap 'echo got {name}; exit 42' {name}; echo ready; while :; do sleep 0.02; done"
        );
        let mut run = Run::shell(&server, "--lock name", &script)?;
        run.says("ready").await?;
        run.signal(signal)?;
        run.says(&format!("got {name}")).await?;
        ensure!(run.code().await? == 42, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_waiter_leaves_the_queue_at_once_on_a_signal() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let lock = FairLock::new(&client, "name");
    let _guard = lock.acquire().await?;
    // A waiter that only fell silent would keep its place for six times the grace.
    let options = "--fair --ttl 10m --grace 3m --lock name";
    for (signal, name) in ALL {
        let mut run = Run::start(&server, options, &["true"])?;
        until("it waits", async || Ok(lock.queue_len().await? == 1)).await?;
        run.signal(signal)?;
        until("it has left", async || Ok(lock.queue_len().await? == 0)).await?;
        ensure!(run.code().await? == 128 + signal.as_raw(), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_signal_that_is_to_be_ignored_is_ignored_by_the_program_too() -> Result<()> {
    let server = Server::start().await?;
    let script =
        "trap '' HUP; \"$0\" run --lock name -- sh -c 'kill -HUP $PPID; kill -HUP $$; exit 5'";
    let output = tokio::process::Command::new("sh")
        .args(["-c", script, THIS])
        .env("LOCKKEEPER_URL", server.url())
        .output()
        .await?;
    ensure!(output.status.code() == Some(5), "{output:?}");
    Ok(())
}
