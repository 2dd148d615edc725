//! A program of another lock library, which works on servers of ours: see `tests/peers/README.md`.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::server::Server;

/// The variable by which `cargo xtask prove` says which of them it has built: a JSON object of the words that start each, by the name
/// of its folder in `tests/peers`.
pub const VARIABLE: &str = "LOCKKEEPER_TEST_PEERS";

/// For the start, and for the end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The words that start the program in this folder of `tests/peers`.
///
/// `None` if it has not been built: that is said, and what was to be tried with it is not.
///
/// # Errors
///
/// If it has not been built and this is continuous integration, where everything must be tried; or the variable says nonsense.
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

/// One that runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct Program {
    /// The library.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How it is used.
    pub settings: String,
    /// What it has, in the words of the README.
    pub kinds: Vec<String>,
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts it by these words, for these servers.
    ///
    /// # Errors
    ///
    /// If it does not start, or does not say in time what it is.
    pub async fn start(words: &[String], servers: &[Server]) -> Result<Self> {
        let command = words.join(" ");
        let (program, words) = words.split_first().context("no word")?;
        let mut process = Command::new(program);
        process
            .args(words)
            .args(servers.iter().map(|it| it.address().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Node makes what it inherits non-blocking, and leaves it so when it is killed: whoever prints there next would fail.
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

    /// Has it do something, within so long; what it answers.
    ///
    /// # Errors
    ///
    /// If it ends, or does not answer in time: what it wrote about itself is in the output.
    pub async fn work(&mut self, order: &Value, patience: Duration) -> Result<Value> {
        let line = format!("{order}\n");
        self.orders.write_all(line.as_bytes()).await?;
        let answer = read(&mut self.answers, patience).await;
        answer.with_context(|| format!("{} was told {order}", self.name))
    }

    /// Ends it by the end of its input.
    ///
    /// # Errors
    ///
    /// If it does not end in time.
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
