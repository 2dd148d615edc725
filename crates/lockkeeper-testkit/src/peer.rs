//! A program that uses another lock library on our servers: see `tests/peers/README.md`.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::server::Server;
use crate::until::PATIENCE;

/// Environment variable in which `cargo xtask prove` lists the programs it has built: a JSON object from a folder in
/// `tests/peers` to the command line that starts its program.
pub const VARIABLE: &str = "LOCKKEEPER_TEST_PEERS";

/// Returns the command line of the program in this folder of `tests/peers`.
///
/// Returns `None` if the program has not been built, after printing that its tests are skipped.
///
/// # Errors
///
/// If the program has not been built on continuous integration, where every test must run; or if the variable is malformed.
pub fn built(folder: &str) -> Result<Option<Vec<String>>> {
    let text = std::env::var(VARIABLE).unwrap_or_else(|_| "{}".to_owned());
    let mut words: BTreeMap<String, Vec<String>> =
        serde_json::from_str(&text).with_context(|| format!("{VARIABLE} is no object of words"))?;
    let found = words.remove(folder);
    if found.is_none() {
        let text = format!("NOT TRIED: {folder} was not built, which `cargo xtask prove` does");
        anyhow::ensure!(std::env::var_os("CI").is_none(), text);
        println!("{text}");
    }
    Ok(found)
}

/// A running program. Dropping it kills the program.
#[derive(Debug)]
pub struct Program {
    /// The name of the library.
    pub name: String,
    /// The version of the library.
    pub version: String,
    /// The settings that the program uses.
    pub settings: String,
    /// The locks that it has, in the terms of the README.
    pub kinds: Vec<String>,
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts the program with this command line, for these servers.
    ///
    /// # Errors
    ///
    /// If the program does not start, or does not introduce itself in time.
    pub async fn start(words: &[String], servers: &[Server]) -> Result<Self> {
        let command = words.join(" ");
        let (program, words) = words.split_first().context("no word")?;
        let mut process = Command::new(program);
        process
            .args(words)
            .args(servers.iter().map(|it| it.address().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Node makes an inherited stderr non-blocking and leaves it so when it is killed; the next program that prints
            // there would fail.
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = process
            .spawn()
            .with_context(|| format!("failed to start {command}"))?;
        let mut errors = BufReader::new(child.stderr.take().context("no errors")?).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = errors.next_line().await {
                eprintln!("{line}");
            }
        });
        let orders = child.stdin.take().context("no input")?;
        let mut answers = BufReader::new(child.stdout.take().context("no output")?).lines();
        let about = read(&mut answers, PATIENCE).await;
        let about = about.with_context(|| command.clone())?;
        let text = |field: &str| -> Result<String> {
            let text = about.get(field).and_then(Value::as_str);
            Ok(text
                .with_context(|| format!("{command} does not say its {field}"))?
                .to_owned())
        };
        let kinds = about["kinds"].as_array().context("no kinds")?;
        let kinds = kinds.iter().filter_map(Value::as_str).map(str::to_owned);
        Ok(Self {
            name: text("name")?,
            version: text("version")?,
            settings: text("settings")?,
            kinds: kinds.collect(),
            child,
            orders,
            answers,
        })
    }

    /// Sends the program an order and returns its answer, which must arrive within `patience`.
    ///
    /// # Errors
    ///
    /// If the program ends or does not answer in time. The error includes what the program printed.
    pub async fn work(&mut self, order: &Value, patience: Duration) -> Result<Value> {
        let line = format!("{order}\n");
        self.orders.write_all(line.as_bytes()).await?;
        let answer = read(&mut self.answers, patience).await;
        answer.with_context(|| format!("{} was told {order}", self.name))
    }

    /// Closes the program's input and waits for its end.
    ///
    /// # Errors
    ///
    /// If the program does not end in time.
    pub async fn stop(mut self) -> Result<()> {
        drop(self.orders);
        let ended = timeout(PATIENCE, self.child.wait()).await;
        ended.with_context(|| format!("{} does not end", self.name))??;
        Ok(())
    }
}

async fn read(lines: &mut Lines<BufReader<ChildStdout>>, patience: Duration) -> Result<Value> {
    let line = timeout(patience, lines.next_line()).await;
    let line = line
        .context("no answer in time")??
        .context("it has ended")?;
    Ok(serde_json::from_str(&line)?)
}
