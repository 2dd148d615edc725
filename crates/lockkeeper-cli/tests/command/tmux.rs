//! An interactive shell in tmux, as a person at a keyboard has it.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_testkit::server::Server;
use tempfile::TempDir;

use crate::support::until;

/// Tmux with its own tmux server, so that no other session is touched, and an interactive shell in it.
pub(crate) struct Tmux {
    folder: TempDir,
}

impl Tmux {
    /// Whether tmux is installed. If not, prints that.
    pub(crate) fn is_there() -> bool {
        let found = Command::new("tmux").arg("-V").output().is_ok();
        if !found {
            println!("there is no tmux to try it in");
        }
        found
    }

    /// Starts a shell on a screen of this size.
    pub(crate) fn start(server: &Server, columns: u16, lines: u16) -> Result<Self> {
        let tmux = Self {
            folder: tempfile::tempdir()?,
        };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let shell = [
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &lines,
            "PS1='ready> ' exec sh -i",
        ];
        let mut command = tmux.command(&[&["-f", "/dev/null"], &shell[..]].concat());
        let started = command.env("LOCKKEEPER_URL", server.url()).status()?;
        ensure!(started.success(), "no tmux");
        Ok(tmux)
    }

    /// Runs tmux with these arguments, and returns its output.
    pub(crate) fn said(&self, words: &[&str]) -> Result<String> {
        Ok(String::from_utf8(self.command(words).output()?.stdout)?)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.folder.path().join("socket"));
        command.args(words).env_remove("TMUX");
        command
    }

    pub(crate) fn types(&self, keys: &[&str]) -> Result<()> {
        let sent = self.command(&[&["send-keys"], keys].concat()).status()?;
        ensure!(sent.success(), "{keys:?}");
        Ok(())
    }

    /// Waits until the screen has exactly this line.
    pub(crate) async fn shows(&self, expected: &str) -> Result<()> {
        let is_shown = |screen: &str| screen.lines().any(|line| line.trim_end() == expected);
        self.until(expected, is_shown).await
    }

    /// Waits until the shell prompts. Text that is typed earlier goes to the program before it.
    pub(crate) async fn prompts(&self) -> Result<()> {
        let prompts = |screen: &str| screen.trim_end().lines().next_back() == Some("ready>");
        self.until("a prompt", prompts).await
    }

    /// Waits until this text is somewhere on the screen.
    pub(crate) async fn has(&self, expected: &str) -> Result<()> {
        self.until(expected, |screen| screen.contains(expected))
            .await
    }

    async fn until(&self, what: &str, so: impl Fn(&str) -> bool) -> Result<()> {
        let seen = until(what, async || Ok(so(&self.screen()?))).await;
        seen.with_context(|| self.screen().unwrap_or_default())
    }

    pub(crate) fn screen(&self) -> Result<String> {
        self.said(&["capture-pane", "-p"])
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command(&["kill-server"]).status();
    }
}
