//! Locks of all kinds for a long time: tasks in several processes on three servers, where all processes but one are killed
//! again and again. Prints the memory of that process and of the servers at intervals. Fails if the memory grows, or if a key
//! without expiry remains. `cargo xtask soak` starts it.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use lockkeeper::{Client, Error};
use lockkeeper_testkit::recorded::{Job, Pace, turn};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const SERVERS: usize = 3;
const PROCESSES: usize = 4;
/// Tasks per process: 64 in all.
const TASKS: usize = 16;
/// Names per kind: few, for contention, but with as many fences.
const NAMES: usize = 6;
const TTL: Duration = Duration::from_secs(3);
const WAITER_TTL: Duration = Duration::from_secs(2);
/// A waiter is served within this time, even if all waiters before it were killed.
const PATIENCE: Duration = Duration::from_secs(120);
const SAMPLES: u32 = 20;
/// How much memory may grow from the largest sample of the first half to the last sample, in KiB and per cent: allocators
/// vary.
const BREATH: (u64, u64) = (2_048, 10);

/// Works under locks of all kinds while clients are killed.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask soak", bin_name = "cargo xtask soak")]
struct Arguments {
    /// How long to run.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// The servers; with them, this is one of the processes.
    #[arg(long, hide = true)]
    on: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let time = Duration::from_secs_f64(60.0 * arguments.minutes);
    // Boxed, because the futures inside are deeply nested.
    match &arguments.on[..] {
        [] => Box::pin(soak(time)).await,
        urls => Box::pin(work(urls, time)).await,
    }
}

async fn soak(time: Duration) -> Result<()> {
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        servers.push(Server::start().await?);
    }
    // A server that has just started does not take part in a Redlock for this long.
    sleep(TTL).await;
    let begun = Instant::now();
    let mut steady = process(&servers, time)?;
    let mut others = Vec::new();
    for _ in 1..PROCESSES {
        others.push(process(&servers, time * 2)?);
    }
    let (mut killed, mut samples) = (0, Vec::new());
    println!("minutes  client KiB  servers KiB  their data KiB  keys  killed");
    while begun.elapsed() < time {
        if begun.elapsed() >= time * u32::try_from(samples.len())? / SAMPLES {
            let sample = Sample::take(&steady, &servers).await?;
            let Sample {
                client,
                servers,
                data,
                keys,
            } = sample;
            let minutes = begun.elapsed().as_secs_f64() / 60.0;
            println!("{minutes:7.1}  {client:10}  {servers:11}  {data:14}  {keys:4}  {killed:6}");
            samples.push(sample);
        }
        sleep(Duration::from_millis(fastrand::u64(100..3_000))).await;
        ensure!(
            steady.try_wait()?.is_none() || begun.elapsed() >= time,
            "it has ended"
        );
        let other = fastrand::usize(..others.len());
        others[other].kill().await?;
        others[other] = process(&servers, time * 2)?;
        killed += 1;
    }
    for other in &mut others {
        other.kill().await?;
    }
    let ended = timeout(PATIENCE * 2, steady.wait()).await?;
    ensure!(ended?.success(), "the process that lives has failed");
    look_at_growth(&samples)?;
    // The leases of killed processes, the time that a server stays out of a Redlock, and their tombstones.
    sleep(TTL * 3 + WAITER_TTL).await;
    come_once_more(&servers).await?;
    let left = what_is_left(&servers).await?;
    println!(
        "{killed} processes killed; {left} keys are left, fences and labels, all of which expire"
    );
    Ok(())
}

fn process(servers: &[Server], time: Duration) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("--minutes")
        .arg((time.as_secs_f64() / 60.0).to_string());
    for server in servers {
        command.arg("--on").arg(server.url());
    }
    Ok(command.kill_on_drop(true).spawn()?)
}

/// Memory in KiB.
#[derive(Debug, Clone, Copy)]
struct Sample {
    client: u64,
    servers: u64,
    data: u64,
    keys: usize,
}

impl Sample {
    async fn take(client: &Child, servers: &[Server]) -> Result<Self> {
        let mut sample = Self {
            client: resident(client.id().context("it has ended")?)?,
            servers: 0,
            data: 0,
            keys: 0,
        };
        for server in servers {
            sample.servers += resident(server.pid().context("a server has ended")?)?;
            let info = server.command(&["INFO", "memory"]).await?.into_text()?;
            let used = info
                .lines()
                .find_map(|line| line.strip_prefix("used_memory_dataset:"));
            sample.data += used
                .context("no used_memory_dataset")?
                .trim()
                .parse::<u64>()?
                / 1024;
            sample.keys += server.keys().await?.len();
        }
        Ok(sample)
    }
}

fn resident(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no VmRSS")?.parse()?)
}

fn look_at_growth(samples: &[Sample]) -> Result<()> {
    let (first, last) = samples.split_at(samples.len() / 2);
    for (what, memory) in [
        ("client", (|sample| sample.client) as fn(&Sample) -> u64),
        ("servers", |sample| sample.servers),
    ] {
        let before = first.iter().map(memory).max().unwrap_or_default();
        let after = last.last().map(memory).unwrap_or_default();
        let most = before + BREATH.0 + before * BREATH.1 / 100;
        ensure!(
            after <= most,
            "memory of the {what} grew from {before} to {after} KiB"
        );
    }
    Ok(())
}

/// Takes every lock once, so that what killed processes left goes at once, or expires ten minutes later.
async fn come_once_more(servers: &[Server]) -> Result<()> {
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let clients = clients(&urls).await?;
    let jobs = Job::of_all(NAMES).into_iter();
    for job in jobs.filter(|job| matches!(job, Job::Single(_))) {
        turn(job, &clients, None, Pace::Calm, PATIENCE).await?;
    }
    for client in &clients {
        client.close().await;
    }
    Ok(())
}

/// Counts the keys. Fails for a key that does not expire, or that is neither a fence nor a client's label.
async fn what_is_left(servers: &[Server]) -> Result<usize> {
    let mut left = 0;
    for server in servers {
        for key in server.keys().await? {
            let lives: i64 = server
                .command(&["PTTL", &key])
                .await?
                .into_text()?
                .parse()?;
            let known = ["lockkeeper.fence:", "lockkeeper.client:"];
            // -2: it has just expired.
            if lives == -1 || !known.iter().any(|prefix| key.starts_with(prefix)) && lives != -2 {
                bail!("{key} is left, for {lives} ms");
            }
            left += 1;
        }
    }
    Ok(left)
}

/// One client per server.
async fn clients(urls: &[String]) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for (number, url) in urls.iter().enumerate() {
        let settings = Client::builder().ttl(TTL).waiter_ttl(WAITER_TTL);
        let settings = settings.store_name(format!("server {number}"));
        clients.push(lockkeeper::connect_with(url, settings).await?);
    }
    Ok(clients)
}

/// One process: works until the time is over, and closes its clients.
async fn work(urls: &[String], time: Duration) -> Result<()> {
    let clients = clients(urls).await?;
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let clients = clients.clone();
        tasks.spawn(async move {
            let (mut turns, jobs) = (Turns::default(), Job::of_all(NAMES));
            while Instant::now() < end {
                let job = jobs[fastrand::usize(..jobs.len())];
                turns.count(turn(job, &clients, None, Pace::Hurried, PATIENCE).await)?;
            }
            anyhow::Ok(turns)
        });
    }
    let mut turns = Turns::default();
    while let Some(done) = tasks.join_next().await {
        let Turns { taken, failed } = done??;
        turns.taken += taken;
        turns.failed += failed;
    }
    let Turns { taken, failed } = turns;
    println!(
        "the process that lived held {taken} times, and {failed} times a machine that was too busy took it or its answer away"
    );
    for client in &clients {
        client.close().await;
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Turns {
    taken: u64,
    failed: u64,
}

impl Turns {
    /// On a busy machine this process loses leases and gets no answers; those errors are counted. Any other error ends the
    /// soak.
    fn count(&mut self, turn: lockkeeper::Result<()>) -> Result<()> {
        match turn {
            Ok(()) => self.taken += 1,
            Err(Error::Backend { .. } | Error::Lost { .. }) => self.failed += 1,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
