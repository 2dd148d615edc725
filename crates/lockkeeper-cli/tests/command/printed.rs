//! What the command prints, compared with snapshots that stand in the tests. What differs between two runs is replaced first.

use std::fmt::{self, Display, Formatter};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use insta::Settings;
use lockkeeper_testkit::server::Server;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::{LIMIT, THIS, command, run};

/// Compares what was printed with the snapshot that follows, or with the one in the folder `snapshots`.
macro_rules! assert_printed {
    ($printed:expr, @$snapshot:literal) => {{
        let printed = &$printed;
        $crate::printed::filters().bind(|| {
            // A test may print the same several times.
            insta::allow_duplicates! { insta::assert_snapshot!(printed, @$snapshot) }
        });
    }};
    ($printed:expr) => {{
        let printed = &$printed;
        $crate::printed::filters().bind(|| insta::assert_snapshot!(printed));
    }};
}
pub(crate) use assert_printed;

/// Replaces what differs between two runs: times, tokens, claims, processes, addresses, and the width of columns.
pub(crate) fn filters() -> Settings {
    const UUID: &str = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
    let system = rustix::system::uname();
    let machine = system.nodename().to_string_lossy().replace('.', r"\.");
    let mut settings = Settings::clone_current();
    for (pattern, shown) in [
        (&*format!("{UUID}:([0-9]+)"), "<client>:$1"),
        (r"<client>:([0-9]+)/[0-9a-f]{16}", "<client>:$1/<claim>"),
        (r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "<time>"),
        // A fencing token begins as a time in microseconds.
        (r"\b[0-9]{16}\b", "<token>"),
        (&*format!(r"\b{machine}:[0-9]+"), "<machine>:<pid>"),
        (
            &*format!(r#""host":"{machine}","pid":[0-9]+"#),
            r#""host":<machine>,"pid":<pid>"#,
        ),
        (r#""started","pid":[0-9]+"#, r#""started","pid":<pid>"#),
        (r#""((?:[a-z]+_)?ms)":[0-9]+"#, r#""$1":<ms>"#),
        (r"(?:127\.0\.0\.1|0\.0\.0\.0):[0-9]{4,5}", "<server>"),
        (r"[0-9]+ µs|\b[0-9]+\.[0-9]{3} s", "<time>"),
        (
            r"(up to|again in|up in|stored for) (?:[0-9]+(?:days|h|m|s|ms) ?\b)+",
            "$1 <time>",
        ),
        (
            r"[0-9]+m?s (behind|ahead of) this machine's",
            "<time> $1 this machine's",
        ),
        (r"(redis|valkey) [0-9]+\.[0-9.]+", "<server version>"),
        // The longest label depends on the length of the machine's name, and so does a history.
        (r"only [0-9]{3} fit", "only <bytes> fit"),
        (r#""bytes":[0-9]{3}"#, r#""bytes":<bytes>"#),
        // The time left of a lease, in a column of its own.
        (r"   (?:[0-9]+(?:h|m|s|ms) ?)+   ", "   <left>   "),
        (r"(?m) +$", ""),
        (r" {4,}", "   "),
        // The usage that follows a wrong command line.
        (
            r"\n!?\n(?:! )?(?:Usage: .*\n!?\n(?:! )?)?For more information, try '--help'\.\n",
            "\n",
        ),
    ] {
        settings.add_filter(pattern, shown);
    }
    settings
}

/// The exit code and the output of a command that has ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Returns the JSON that was printed, one value per line. Fails unless the exit code is 0.
    pub(crate) fn json(&self) -> Result<Vec<Value>> {
        ensure!(self.code == Some(0), "{self}");
        let lines = self.out.lines().map(serde_json::from_str);
        Ok(lines.collect::<Result<_, _>>()?)
    }
}

impl Display for Said {
    /// Shows stdout, then stderr with a mark on each line, then an exit code that is not 0.
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.out)?;
        for line in self.err.lines() {
            writeln!(formatter, "! {line}")?;
        }
        match self.code {
            Some(0) => Ok(()),
            Some(code) => writeln!(formatter, "=> {code}"),
            None => writeln!(formatter, "=> killed"),
        }
    }
}

/// Runs the command until it ends.
pub(crate) async fn said(url: &str, words: &[&str]) -> Result<Said> {
    end_of(&mut command(url, words)).await
}

/// The same for a command line without quotes.
pub(crate) async fn ask(server: &Server, line: &str) -> Result<Said> {
    said(&server.url(), &line.split_whitespace().collect::<Vec<_>>()).await
}

/// Runs `lockkeeper run` with these options and a script for a shell, in which `$0` is the command.
pub(crate) async fn shell(server: &Server, options: &str, script: &str) -> Result<Said> {
    said(&server.url(), &run(options, &["sh", "-c", script, THIS])).await
}

/// Waits until a command ends that reads nothing.
pub(crate) async fn end_of(command: &mut Command) -> Result<Said> {
    let output = command.stdin(Stdio::null()).output();
    let output = timeout(LIMIT, output).await.context("it hangs")??;
    Ok(Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

/// Runs one command after the other, and returns what each printed below its command line.
pub(crate) async fn asked(server: &Server, lines: &[&str]) -> Result<String> {
    let mut text = String::new();
    for line in lines {
        text += &format!("$ {line}\n{}", ask(server, line).await?);
    }
    Ok(text)
}
