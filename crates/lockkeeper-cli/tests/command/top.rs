//! The full screen: what it shows, what its keys do, and that it restores the terminal.

#![cfg(target_os = "linux")]

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, Guard as _, Mutex};
use lockkeeper_testkit::server::Server;
use tokio::time::timeout;

use crate::printed::{asked, assert_printed};
use crate::support::{LIMIT, THIS, until};
use crate::tmux::Tmux;

/// Returns the state of the terminal that a program might fail to restore: the settings, the alternate screen, the cursor.
async fn state(tmux: &Tmux, file: &std::path::Path) -> Result<(String, String)> {
    let _ = std::fs::remove_file(file);
    let line = format!("stty -a > {0}.new; mv {0}.new {0}", file.display());
    tmux.types(&[&line, "Enter"])?;
    until("stty has said it", async || Ok(file.exists())).await?;
    let settings = std::fs::read_to_string(file)?;
    ensure!(settings.contains("echo"), "{settings}");
    let flags = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{bracket_paste_flag}";
    let flags = tmux.said(&["display-message", "-p", flags])?;
    Ok((settings, flags))
}

/// The row of this name has these texts.
fn shows(screen: &str, name: &str, texts: &[&str]) -> Result<()> {
    let row = screen.lines().find(|line| line.starts_with(name));
    let row = row.with_context(|| screen.to_owned())?;
    for text in texts {
        ensure!(row.contains(text), "{row}");
    }
    Ok(())
}

#[tokio::test]
async fn in_tmux_the_screen_shows_filters_opens_revokes_and_leaves_no_trace() -> Result<()> {
    if !Tmux::is_there() {
        return Ok(());
    }
    let server = Server::start().await?;
    let holder = lockkeeper::connect_with(&server.url(), Client::builder().label("db7:99")).await?;
    let printer = FairLock::new(&holder, "printer");
    let held = printer.acquire().await?;
    let _other = Mutex::new(&holder, "other").acquire().await?;
    let lease = held.lease().clone();
    let waiter = lockkeeper::connect_with(&server.url(), Client::builder().label("db8:11")).await?;
    // A client sends its label with its first grant, so it must hold something once.
    let _known = Mutex::new(&waiter, "third").acquire().await?;
    let waiting = FairLock::new(&waiter, "printer");
    let waits = tokio::spawn(waiting.acquire().into_future());
    until("it waits", async || Ok(printer.queue_len().await? == 1)).await?;

    let folder = tempfile::tempdir()?;
    let file = folder.path().join("stty");
    let tmux = Tmux::start(&server, 80, 24)?;
    tmux.prompts().await?;
    let before = state(&tmux, &file).await?;
    tmux.types(&[&format!("{THIS} top --interval 200ms"), "Enter"])?;
    tmux.has("names 3, holders 3, waiting 1").await?;
    let screen = tmux.screen()?;
    shows(&screen, "printer", &["fair", "exclusive", "db7:99", "1"])?;
    ensure!(
        screen.contains("third") && !screen.contains("ready>"),
        "{screen}"
    );

    // Two holders that are not of this library: a plain string, and a thread of Redisson.
    let thread = "2bbaa2bf-6d65-4e16-98b0-454cf99bfe9d:9";
    for words in [
        &["SET", "lockkeeper:theirs", "8f1c2d3e", "PX", "600000"][..],
        &["HSET", "lockkeeper:java", thread, "1"],
        &["PEXPIRE", "lockkeeper:java", "600000"],
    ] {
        server.command(words).await?;
    }
    tmux.has("names 5, holders 5, waiting 1").await?;
    let screen = tmux.screen()?;
    shows(&screen, "theirs", &["foreign", "exclusive", "8f1c2d3e"])?;
    shows(&screen, "java", &["redisson", "exclusive", &thread[..8]])?;

    tmux.types(&["/", "thi"])?;
    tmux.has("filter: thi_").await?;
    let filtered = tmux.screen()?;
    ensure!(
        filtered.contains("third") && !filtered.contains("printer"),
        "{filtered}"
    );
    tmux.types(&["Escape"])?;
    tmux.has("/ filter ").await?;

    // The name with a waiter is the first one.
    tmux.types(&["Enter"])?;
    tmux.has("1 waiting, as of").await?;
    tmux.has("db8:11").await?;
    tmux.types(&["r"])?;
    tmux.has("Revoke printer?").await?;
    tmux.types(&["y"])?;
    timeout(LIMIT, lease.lost())
        .await
        .context("it is not lost")?;
    drop(held);
    let next = timeout(LIMIT, waits).await.context("nobody is next")??;
    let next = next?;
    tmux.has("nobody waits").await?;
    tmux.types(&["q"])?;
    tmux.prompts().await?;
    ensure!(state(&tmux, &file).await? == before, "{before:?}");
    drop(next);
    Ok(())
}

#[tokio::test]
async fn in_tmux_a_signal_and_an_outage_leave_the_terminal_as_it_was() -> Result<()> {
    if !Tmux::is_there() {
        return Ok(());
    }
    let mut server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let held = Mutex::new(&client, "printer").acquire().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("stty");
    let tmux = Tmux::start(&server, 80, 24)?;
    tmux.prompts().await?;
    let before = state(&tmux, &file).await?;
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("INT", 130)] {
        // The shell becomes the command, so that the number of the process is known.
        let line = format!("sh -c 'echo $$ > {}; exec {THIS} top'", file.display());
        tmux.types(&["clear; ", &line, "Enter"])?;
        tmux.has("names 1,").await?;
        let process = std::fs::read_to_string(&file)?;
        tmux.has("printer").await?;
        let sent = std::process::Command::new("kill")
            .args(["-s", signal, process.trim()])
            .status()?;
        ensure!(sent.success(), "{signal}");
        tmux.prompts().await?;
        tmux.types(&["echo code $?", "Enter"])?;
        tmux.shows(&format!("code {code}")).await?;
        ensure!(state(&tmux, &file).await? == before, "{signal}: {before:?}");
    }
    tmux.types(&["clear; ", THIS, " top --interval 200ms", "Enter"])?;
    tmux.has("names 1,").await?;
    drop(held);
    server.kill()?;
    tmux.has("no answer for").await?;
    server.restart().await?;
    tmux.has("nothing is held").await?;
    tmux.types(&["C-c"])?;
    tmux.prompts().await?;
    ensure!(state(&tmux, &file).await? == before, "{before:?}");
    Ok(())
}

#[tokio::test]
async fn without_a_terminal_it_says_what_to_do_instead() -> Result<()> {
    let server = Server::start().await?;
    let lines = [
        "top",
        "top --json",
        "top --interval 1ms",
        "top --interval 2h",
    ];
    assert_printed!(asked(&server, &lines).await?, @"
    $ top
    ! lockkeeper: top needs a terminal: without one, use `lockkeeper ls`
    => 64
    $ top --json
    ! lockkeeper: top has no --json: use `lockkeeper ls --json` or `lockkeeper watch NAME --json`
    => 64
    $ top --interval 1ms
    ! lockkeeper: an --interval must be from 100ms to 1h
    => 64
    $ top --interval 2h
    ! lockkeeper: an --interval must be from 100ms to 1h
    => 64
    ");
    Ok(())
}
