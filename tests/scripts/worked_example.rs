//! The worked example in the wire-format page, run as it stands there.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_testkit::server::Server;
use tokio::process::Command;

/// What stands between the answers of two commands.
const NEXT: &str = "----";

/// A command of the example, and what the page says that it prints.
struct Step {
    command: String,
    prints: String,
}

/// The commands in the blocks of `text`: each line that begins with `$ `, up to two spaces; the rest, and the lines below it, is what it prints.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in text.split("```text\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        for line in block.lines() {
            if let Some(line) = line.strip_prefix("$ ") {
                let (command, prints) = line.split_once("  ").unwrap_or((line, ""));
                steps.push(Step {
                    command: command.to_owned(),
                    prints: prints.to_owned(),
                });
            } else if let Some(step) = steps.last_mut() {
                step.prints += &format!(" {line}");
            }
        }
    }
    steps
}

/// The words of a text, with `N` for each number that differs between two runs: times and tokens have four digits and more.
fn words(text: &str, sorted: bool) -> Vec<String> {
    let masked = |word: &str| {
        let parts = word.split_inclusive(|letter: char| !letter.is_ascii_digit());
        let mask = |part: &str| {
            let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
            match part.len() - rest.len() {
                0..=3 => part.to_owned(),
                _ => format!("N{rest}"),
            }
        };
        parts.map(mask).collect::<String>()
    };
    let mut words: Vec<String> = text.split_whitespace().map(masked).collect();
    if sorted {
        words.sort();
    }
    words
}

#[tokio::test]
async fn the_worked_example_prints_what_the_page_says() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/wire-format.md"))?;
    let (_, example) = page
        .split_once("\n## A worked example\n")
        .context("no example")?;
    let example = example.split("\n## ").next().unwrap_or_default();
    let (_, rest) = example.split_once("```sh\n").context("no set-up")?;
    let (set_up, rest) = rest.split_once("```").context("no end of it")?;
    let steps = steps(rest);
    ensure!(steps.len() > 10, "{} steps", steps.len());

    let mut text = set_up.to_owned();
    for step in &steps {
        text += &format!("echo {NEXT}\n{}\n", step.command);
    }
    let server = Server::start().await?;
    let client = if which("redis-cli") {
        "redis-cli"
    } else {
        "valkey-cli"
    };
    let text = text
        .replace(
            "redis-cli ",
            &format!("{client} -p {} ", server.address().port()),
        )
        // No stall ends this lease.
        .replace(" 30000 ", " 3600000 ");
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &text]).current_dir(&root);
    let run = shell.output().await?;
    let printed = String::from_utf8(run.stdout)?;
    let errors = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "{printed}\n{errors}");
    let answers: Vec<&str> = printed.split(NEXT).skip(1).collect();
    ensure!(answers.len() == steps.len(), "{printed}");
    for (step, answer) in steps.iter().zip(answers) {
        // The server names keys in any order.
        let sorted = step.command.contains(" KEYS ");
        let (says, is) = (words(&step.prints, sorted), words(answer, sorted));
        ensure!(says == is, "{}: {is:?}, not {says:?}", step.command);
    }
    Ok(())
}

fn which(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}
