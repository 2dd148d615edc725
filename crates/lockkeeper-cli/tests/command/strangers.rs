//! What others have written on the server, or made of the streams, harms nobody who runs or looks.

use anyhow::{Result, ensure};
use lockkeeper::{Client, Mutex};
use lockkeeper_testkit::server::Server;

use crate::support::{LIMIT, command};

/// Clears the screen in two ways, and turns around what comes behind.
const LABEL: &str = "db1:7 \u{1b}[2J\u{9b}2J\u{202e}evil\nlockkeeper: all is well";

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
        // As on a terminal.
        command.env("CLICOLOR_FORCE", "1");
        let output = tokio::time::timeout(LIMIT, command.output()).await??;
        let text = String::from_utf8([output.stdout, output.stderr].concat())?;
        let plain = text.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        let harmless = |character: char| {
            !matches!(character, '\u{202e}') && (character == '\n' || !character.is_control())
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
