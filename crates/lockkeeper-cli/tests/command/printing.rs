//! What the command prints when nobody asks about locks: the demo, completions, manuals; and to readers that go away.

use anyhow::{Result, ensure};
use lockkeeper::Mutex;
use lockkeeper_testkit::server::Server;

use crate::support::said;

#[tokio::test]
async fn the_demo_runs_alone_and_on_a_server() -> Result<()> {
    let alone = tokio::process::Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .arg("demo")
        .env_remove("LOCKKEEPER_URL")
        .output()
        .await?;
    let text = String::from_utf8(alone.stdout)?;
    ensure!(
        alone.status.success() && text.contains("refuses token"),
        "{text}"
    );
    let server = Server::start().await?;
    let said = said(&server.url(), &["demo"]).await?;
    ensure!(
        said.code == Some(0) && said.out.contains("refuses token"),
        "{said:?}"
    );
    ensure!(
        said.out.find("bob     prints") < said.out.find("carl    prints"),
        "{said:?}"
    );
    Ok(())
}

#[tokio::test]
async fn completions_and_man_pages_are_printed() -> Result<()> {
    let url = "redis://127.0.0.1:1";
    for shell in ["bash", "zsh", "fish"] {
        let said = said(url, &["completions", shell]).await?;
        ensure!(
            said.code == Some(0) && said.out.contains("on-lost"),
            "{shell}: {said:?}"
        );
    }
    let page = said(url, &["manual"]).await?;
    ensure!(
        page.out.contains(".TH lockkeeper 1") && page.code == Some(0),
        "{page:?}"
    );
    let folder = tempfile::tempdir()?;
    let pages = said(url, &["manual", folder.path().to_str().unwrap()]).await?;
    ensure!(pages.code == Some(0), "{pages:?}");
    ensure!(folder.path().join("lockkeeper-run.1").exists());
    for words in [
        &["--help"][..],
        &["run", "--help"],
        &["help", "release"],
        &["--version"],
    ] {
        let said = said(url, words).await?;
        ensure!(
            said.code == Some(0) && said.err.is_empty(),
            "{words:?}: {said:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn whoever_has_read_enough_of_a_list_may_go() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _guard = Mutex::new(&client, "name").acquire().await?;
    let script = "\"$0\" ls | true; \"$0\" inspect name >/dev/full; echo \"code $?\"";
    let output = tokio::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_lockkeeper")])
        .env("LOCKKEEPER_URL", server.url())
        .output()
        .await?;
    let (out, err) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    );
    ensure!(out == "code 71\n", "{out}");
    ensure!(
        err.lines().count() == 1 && !err.contains("panicked"),
        "{err}"
    );
    Ok(())
}
