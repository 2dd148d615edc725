//! What an acquire and a release of a free name cost the server, by its own count: microseconds inside commands, and the
//! number of commands that the scripts run.

use anyhow::{Context as _, Result};
use lockkeeper::{
    Client, FairLock, Guard, Lock, MultiLock, Mutex, ReentrantLock, RwLock, Semaphore,
};
use lockkeeper_testkit::server::Server;
use tokio::task::JoinSet;

use crate::Effort;
use crate::meters::count;
use crate::report::{Row, Target};
use crate::rounds::Spread;

const PART: &str = "server";

/// Enough that the server is never idle between two commands.
const TASKS: usize = 16;

/// The target for a pair on one name, µs.
const TARGET: Target = Target::AtMost(6.0);

/// The target for a pair of a multi-lock of eight names, commands.
const COMMANDS_OF_EIGHT: Target = Target::AtMost(32.0);

/// Measures every kind.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let mut rows = Vec::new();
    let named = |kind: &str, task: usize| format!("{kind} {task}");
    let all = |kind: &'static str| move |task| named(kind, task);
    let (mutex, nested, fair, rw, permits) = (
        all("mutex"),
        all("re-entrant"),
        all("fair"),
        all("rwlock"),
        all("semaphore"),
    );
    rows.extend(
        kind(&server, "mutex", effort, |it| {
            Mutex::new(&client, &mutex(it))
        })
        .await?,
    );
    let make = |it| ReentrantLock::new(&client, &nested(it));
    rows.extend(kind(&server, "re-entrant", effort, make).await?);
    rows.extend(
        kind(&server, "fair", effort, |it| {
            FairLock::new(&client, &fair(it))
        })
        .await?,
    );
    let read = |it| RwLock::new(&client, &rw(it)).reader();
    rows.extend(kind(&server, "read", effort, read).await?);
    let write = |it| RwLock::new(&client, &rw(it)).writer();
    rows.extend(kind(&server, "write", effort, write).await?);
    let permit = |it| Semaphore::new(&client, &permits(it), 4);
    rows.extend(kind(&server, "semaphore", effort, permit).await?);
    let all = |it| eight(&client, &format!("eight {it}"));
    rows.extend(kind(&server, "eight mutexes", effort, all).await?);
    client.close().await;
    Ok(rows)
}

/// Eight names, which one script acquires.
pub(crate) fn eight(client: &Client, name: &str) -> MultiLock {
    let locks = (0..8).map(|number| Mutex::new(client, &format!("{name} {number}")));
    let locks: Vec<_> = locks.collect();
    MultiLock::new(&locks).unwrap_or_else(|error| unreachable!("{error}"))
}

async fn kind<L: Lock + 'static>(
    server: &Server,
    what: &str,
    effort: Effort,
    make: impl Fn(usize) -> L,
) -> Result<Vec<Row>> {
    let (mut micros, mut commands) = (Vec::new(), Vec::new());
    let pairs = effort.pairs / 4;
    for round in 0..=effort.rounds {
        let before = Commands::of(server).await?;
        let mut working = JoinSet::new();
        for task in 0..TASKS {
            let lock = make(task);
            working.spawn(async move {
                for _ in 0..pairs {
                    Guard::release(lock.acquire().await?).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = working.join_next().await {
            done??;
        }
        let after = Commands::of(server).await?;
        if round > 0 {
            let all = count(pairs * TASKS);
            micros.push((after.micros - before.micros) / all);
            commands.push((after.inside - before.inside) / all);
        }
    }
    let row = |of: &str, unit, values: Vec<f64>| {
        anyhow::Ok(Row::new(
            PART,
            format!("{what}: {of}"),
            unit,
            Spread::of(values)?,
        ))
    };
    let (micros, commands) = (
        row("inside the commands", "µs", micros)?,
        row("commands inside scripts", "", commands)?,
    );
    Ok(match what {
        "eight mutexes" => vec![micros, commands.target(COMMANDS_OF_EIGHT)],
        _ => vec![micros.target(TARGET), commands],
    })
}

/// A server's own statistics of its commands.
struct Commands {
    /// The time spent in scripts, µs.
    micros: f64,
    /// The commands that scripts have run.
    inside: f64,
}

impl Commands {
    async fn of(server: &Server) -> Result<Self> {
        let text = server
            .command(&["INFO", "commandstats"])
            .await?
            .into_text()?;
        let mut found = Self {
            micros: 0.0,
            inside: 0.0,
        };
        for line in text.lines() {
            let Some((name, fields)) = line
                .strip_prefix("cmdstat_")
                .and_then(|it| it.split_once(':'))
            else {
                continue;
            };
            let field = |name: &str| -> Result<f64> {
                let mut fields = fields.trim().split(',');
                let value = fields.find_map(|it| it.strip_prefix(name)?.strip_prefix('='));
                Ok(value.context("no such field")?.parse()?)
            };
            match name {
                "evalsha" | "eval" => found.micros += field("usec")?,
                // Commands that connections send in addition to scripts.
                _ if OUTSIDE.iter().any(|it| name.starts_with(it)) => {}
                _ => found.inside += field("calls")?,
            }
        }
        Ok(found)
    }
}

/// Commands that no script of a pair runs.
const OUTSIDE: [&str; 10] = [
    "info",
    "hello",
    "client",
    "ping",
    "script",
    "subscribe",
    "unsubscribe",
    "config",
    "select",
    "cluster",
];
