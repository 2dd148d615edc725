//! A fleet of batch programs, of which two work at a time: five processes of `lockkeeper run --semaphore`, as cron or a shell on
//! five machines would start them. While they work, `lockkeeper limit` raises the limit, and the next one starts at once.
//!
//! Read this when programs in any language must not all work at the same time. Processes meet on a server:
//! `cargo build -p lockkeeper-cli`, then `cargo example batch_fleet -- --url redis://127.0.0.1:6379`.
//! `cargo example batch_fleet` alone needs no server; there the jobs are tasks of this program, which take the same permits
//! with the library.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser as _;
use lockkeeper::Semaphore;
use lockkeeper_examples::{Arguments, Place, Story};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const JOBS: [&str; 5] = ["ann", "bob", "carl", "dora", "emil"];

/// The name of the example and of its namespace.
const NAME: &str = "batch_fleet";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { url } = Arguments::parse();
    let place = Place::open_at(&url, NAME).await?;
    timeout(Duration::from_secs(60), all(&place, &url)).await??;
    place.close().await
}

async fn all(place: &Place, url: &str) -> anyhow::Result<()> {
    let story = Story::new();
    let fleet = Fleet {
        batch: Semaphore::new(&place.client, "batch", 2),
        url: (url != "memory://").then(|| url.to_owned()),
    };
    let (begins, mut begun) = mpsc::unbounded_channel();

    story.chapter("Five jobs start, and two may work");
    let mut jobs = Vec::new();
    for name in JOBS {
        jobs.push((name, fleet.start(name, begins.clone())?));
    }
    let mut at_work = Vec::new();
    for _ in 0..2 {
        at_work.push(begun.recv().await.context("nobody begins")?);
    }
    fleet.waiting(3).await?;
    story.tell("fleet", format!("{} work, three wait", at_work.join(", ")));
    ensure!(begun.is_empty(), "a third one works");

    story.chapter("Somebody raises the limit to three");
    fleet.set_limit("3").await?;
    at_work.push(begun.recv().await.context("nobody begins")?);
    fleet.waiting(2).await?;
    story.tell("fleet", format!("{} work, two wait", at_work.join(", ")));

    story.chapter("Whoever is done lets the next one in");
    while let Some(name) = at_work.pop() {
        let place = jobs.iter().position(|(job, _)| *job == name);
        let (_, job) = jobs.swap_remove(place.context("an unknown job")?);
        job.end().await?;
        story.tell(name, "is done");
        if jobs.len() > at_work.len() {
            at_work.push(begun.recv().await.context("nobody begins")?);
        }
        ensure!(at_work.len() <= 3 && begun.is_empty());
    }
    ensure!(jobs.is_empty() && fleet.batch.state().await?.is_none());
    Ok(())
}

/// How jobs are started: with the command on this server, or with the library.
struct Fleet {
    batch: Semaphore,
    url: Option<String>,
}

/// A job that works until it is told to end.
enum Job {
    Process(Child),
    Task(oneshot::Sender<()>, JoinHandle<anyhow::Result<()>>),
}

impl Fleet {
    /// Starts a job that reports when it begins to work.
    fn start(
        &self,
        name: &'static str,
        begins: UnboundedSender<&'static str>,
    ) -> anyhow::Result<Job> {
        let Some(url) = &self.url else {
            let (end, ended) = oneshot::channel();
            let batch = self.batch.clone();
            let task = tokio::spawn(async move {
                let permit = batch.acquire().await?;
                begins.send(name)?;
                permit.run(ended).await??;
                permit.release().await?;
                Ok(())
            });
            return Ok(Job::Task(end, task));
        };
        let mut command = lockkeeper(url)?;
        command.args(["run", "--semaphore", "batch", "--limit", "2"]);
        // Any program would do; this one works until its input ends.
        command.args(["--", "sh", "-c", "echo at work; cat"]);
        let mut process = command.spawn()?;
        let out = process.stdout.take().context("no output")?;
        tokio::spawn(async move {
            let said = BufReader::new(out).lines().next_line().await?;
            ensure!(said.as_deref() == Some("at work"), "{name} said {said:?}");
            begins.send(name)?;
            Ok(())
        });
        Ok(Job::Process(process))
    }

    async fn set_limit(&self, limit: &str) -> anyhow::Result<()> {
        match &self.url {
            Some(url) => {
                let output = lockkeeper(url)?.args(["limit", "batch", limit]).output();
                let output = output.await?;
                print!("  {}", String::from_utf8(output.stdout)?);
                ensure!(output.status.success());
            }
            None => ensure!(self.batch.set_limit(limit.parse()?).await?),
        }
        Ok(())
    }

    /// Waits until this many wait: processes take a moment to start.
    async fn waiting(&self, number: u64) -> anyhow::Result<()> {
        while self.batch.state().await?.map(|state| state.waiters) != Some(number) {
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Job {
    async fn end(self) -> anyhow::Result<()> {
        match self {
            Self::Process(mut process) => {
                drop(process.stdin.take());
                let status = process.wait().await?;
                ensure!(status.success(), "a job ended with {status}");
            }
            Self::Task(end, task) => {
                ensure!(end.send(()).is_ok(), "a job has ended before it was told");
                task.await??;
            }
        }
        Ok(())
    }
}

/// The command; cargo puts it next to the folder of the examples.
fn lockkeeper(url: &str) -> anyhow::Result<Command> {
    let example = std::env::current_exe()?;
    let folder = example.ancestors().nth(2);
    let path: PathBuf = folder.context("no folder")?.join("lockkeeper");
    ensure!(
        path.exists(),
        "build the command first: cargo build -p lockkeeper-cli"
    );
    let mut command = Command::new(path);
    command
        .env("LOCKKEEPER_URL", url)
        .env("LOCKKEEPER_NAMESPACE", NAME);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    Ok(command)
}
