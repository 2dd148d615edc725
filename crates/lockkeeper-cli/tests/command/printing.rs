//! What the command prints when nobody asks about locks: the demo, completions, manuals; and to readers that go away.

use anyhow::{Result, ensure};
use lockkeeper::Mutex;
use lockkeeper_testkit::server::Server;
use tokio::process::Command;

use crate::printed::{ask, assert_printed, end_of, said};
use crate::support::THIS;

#[tokio::test]
async fn the_demo_runs_alone_and_on_a_server() -> Result<()> {
    let mut alone = Command::new(THIS);
    alone.arg("demo").env_remove("LOCKKEEPER_URL");
    let alone = end_of(&mut alone).await?.to_string();
    let server = Server::start().await?;
    assert_printed!(alone + &ask(&server, "demo").await?.to_string());
    Ok(())
}

#[tokio::test]
async fn completions_and_man_pages_are_printed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pages = format!("manual {}", folder.path().display());
    for (line, expected) in [
        ("completions bash", "on-lost"),
        ("completions zsh", "on-lost"),
        ("completions fish", "on-lost"),
        ("manual", ".TH lockkeeper 1"),
        (&pages, ""),
        ("--help", "Examples:"),
        ("run --help", "Examples:"),
        ("help release", "Examples:"),
        ("--version", env!("CARGO_PKG_VERSION")),
    ] {
        let said = said("redis://127.0.0.1:1", &line.split(' ').collect::<Vec<_>>()).await?;
        ensure!(
            said.code == Some(0) && said.err.is_empty(),
            "{line}: {said}"
        );
        ensure!(said.out.contains(expected), "{line}: {said}");
    }
    ensure!(folder.path().join("lockkeeper-run.1").exists());
    Ok(())
}

#[tokio::test]
async fn whoever_has_read_enough_of_a_list_may_go() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _guard = Mutex::new(&client, "name").acquire().await?;
    let script = "\"$0\" ls | true; \"$0\" inspect name >/dev/full; echo \"code $?\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, THIS]);
    assert_printed!(end_of(shell.env("LOCKKEEPER_URL", server.url())).await?, @"
    code 71
    ! lockkeeper: could not write: No space left on device (os error 28)
    ");
    Ok(())
}
