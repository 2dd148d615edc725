//! The program `holder`, which holds locks in a process of its own until it is told, killed or stopped.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_testkit::until::PATIENCE;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// A time as the `holder` takes it.
pub fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}

/// A running `holder` process, which ends with the test.
pub struct Holder {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// Starts the program with these words.
    pub fn start(program: &str, words: &[&str]) -> Result<Self> {
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        Ok(Self { child, lines })
    }

    /// The next line that it prints.
    pub async fn line(&mut self) -> Result<String> {
        timeout(PATIENCE, self.lines.next_line())
            .await??
            .context("the holder ended")
    }

    /// Sends it this line.
    pub async fn send(&mut self, line: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("it has no input")?;
        Ok(input.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// Sends it this line and returns its next line.
    pub async fn tell(&mut self, line: &str) -> Result<String> {
        self.send(line).await?;
        self.line().await
    }

    /// Everything else that it prints until it ends successfully.
    pub async fn rest(&mut self) -> Result<Vec<String>> {
        let limit = PATIENCE + lockkeeper_testkit::recorded::duration();
        let mut lines = Vec::new();
        while let Some(line) = timeout(limit, self.lines.next_line()).await?? {
            lines.push(line);
        }
        ensure!(self.child.wait().await?.success(), "the holder failed");
        Ok(lines)
    }

    /// Kills it with SIGKILL.
    pub async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Kills it and returns what it had printed before.
    pub async fn last_words(mut self) -> Result<Vec<String>> {
        self.kill().await?;
        let mut lines = Vec::new();
        while let Some(line) = timeout(PATIENCE, self.lines.next_line()).await?? {
            lines.push(line);
        }
        Ok(lines)
    }

    /// Sends it a signal: `-STOP`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.child.id().context("the holder ended")?.to_string();
        let status = std::process::Command::new("kill")
            .args([signal, &pid])
            .status()?;
        ensure!(status.success(), "kill {signal} {pid}");
        Ok(())
    }
}
