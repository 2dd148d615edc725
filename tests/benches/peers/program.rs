//! A peer's program: see `tests/peers/README.md`.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use lockkeeper_testkit::server::Server;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::Answer;
use crate::PATIENCE;

/// One that runs.
pub(super) struct Program {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) settings: String,
    pub(super) kinds: Vec<String>,
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts it by a command, a JSON array of its words.
    pub(super) async fn start(command: &str, servers: &[Server]) -> Result<Self> {
        let words: Vec<String> = serde_json::from_str(command).context("no array of words")?;
        let (program, words) = words.split_first().context("no word")?;
        let mut process = Command::new(program);
        process
            .args(words)
            .args(servers.iter().map(|it| it.address().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = process
            .spawn()
            .with_context(|| format!("failed to start {command}"))?;
        let orders = child.stdin.take().context("no input")?;
        let mut answers = BufReader::new(child.stdout.take().context("no output")?).lines();
        let about = read(&mut answers)
            .await
            .with_context(|| command.to_owned())?;
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

    pub(super) async fn work(&mut self, order: &Value) -> Result<Answer> {
        let line = format!("{order}\n");
        self.orders.write_all(line.as_bytes()).await?;
        let answer = read(&mut self.answers).await;
        let answer = answer.with_context(|| format!("{} was told {order}", self.name))?;
        let number = |field: &str| answer[field].as_f64().context("no number");
        let mut waits = Vec::new();
        for its in answer["waits"].as_array().context("no waits")? {
            let its = its.as_array().context("no waits of a client")?;
            waits.push(its.iter().filter_map(Value::as_f64).collect());
        }
        Ok(Answer {
            waits,
            seconds: number("seconds")?,
            processor: number("processor")?,
        })
    }

    /// Ends it by the end of its input.
    pub(super) async fn stop(mut self) -> Result<()> {
        drop(self.orders);
        let ended = timeout(PATIENCE, self.child.wait()).await;
        ended.with_context(|| format!("{} does not end", self.name))??;
        Ok(())
    }
}

async fn read(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<Value> {
    let line = timeout(PATIENCE, lines.next_line()).await;
    let line = line
        .context("no answer in time")??
        .context("it has ended")?;
    Ok(serde_json::from_str(&line)?)
}
