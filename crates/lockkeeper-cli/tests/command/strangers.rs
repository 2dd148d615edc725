//! Data that other programs have written on the server does not harm the command or the people who read its output.

use anyhow::{Result, ensure};
use lockkeeper::{Client, Mutex};
use lockkeeper_testkit::server::Server;

use crate::printed::{ask, end_of};
use crate::support::command;

/// A label that clears the screen in two ways, reverses the text behind it, and hides something in characters without width.
const LABEL: &str = "db1:7 \u{1b}[2J\u{9b}2J\u{202e}evil\nlockkeeper: all is well\u{200b}\u{feff}\u{ad}\u{115f}\u{e0041}";

#[tokio::test]
async fn a_label_moves_no_cursor_wherever_it_is_shown() -> Result<()> {
    let server = Server::start().await?;
    let settings = Client::builder().label(LABEL);
    let client = lockkeeper::connect_with(&server.url(), settings).await?;
    let _guard = Mutex::new(&client, "name").acquire().await?;
    let run = ["run", "--no-wait", "--lock", "name"];
    let job = ["--", "true"];
    for words in [
        &[&run[..], &job].concat()[..],
        &[&run[..], &["--json"], &job].concat(),
        &["release", "name", "--fence", "3", "--force"],
        &["inspect", "name"],
        &["inspect", "name", "--json"],
        &["ls"],
        &["ls", "--json"],
    ] {
        let mut command = command(&server.url(), words);
        // The output has colours, as on a terminal.
        command.env("CLICOLOR_FORCE", "1");
        let said = end_of(&mut command).await?;
        let text = said.out + &said.err;
        let plain = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        let harmless = |character: char| {
            !"\u{202e}\u{200b}\u{feff}\u{ad}\u{115f}\u{e0041}".contains(character)
                && (character == '\n' || !character.is_control())
        };
        ensure!(plain.chars().all(harmless), "{words:?}: {plain:?}");
        ensure!(plain.contains("evil\\nlock"), "{words:?}: {plain:?}");
        if words.contains(&"--json") {
            let is_told = |line: &str| -> Result<bool> {
                let value: serde_json::Value = serde_json::from_str(line)?;
                let label = &value["holders"][0];
                Ok(label == LABEL || label["label"] == LABEL)
            };
            let last = plain.lines().last().unwrap_or_default();
            ensure!(is_told(last)?, "{words:?}: {plain:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_label_and_a_claim_without_end_are_cut() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    // A label and a lock of 500 kB, written without this library.
    let owner = guard.owner().to_string();
    let label = format!(
        "lockkeeper.client:{{lockkeeper:{}}}",
        owner.trim_end_matches(":1")
    );
    for key in [&*label, "lockkeeper:theirs"] {
        let fill = "redis.call('SETRANGE', KEYS[1], 500000, 'x') return 1";
        server.command(&["EVAL", fill, "1", key]).await?;
    }
    for line in [
        "ls",
        "inspect name",
        "inspect theirs",
        "run --no-wait --lock theirs -- true",
    ] {
        let said = ask(&server, line).await?;
        let shown = said.out.len() + said.err.len();
        ensure!(shown > 0 && shown < 50_000, "{line}: {shown}");
    }
    Ok(())
}
