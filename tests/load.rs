//! Locks under load, for five seconds or as long as `LOCKKEEPER_LOAD_SECONDS` says, and what was believed meanwhile.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::history::{Belief, History};
use lockkeeper_testkit::load::{duration, read_and_write};
use lockkeeper_testkit::server::Server;
use tokio::task::JoinSet;

use crate::processes::Holder;
use crate::support::client;

const PROCESSES: u32 = 4;
const TASKS: u32 = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_of_many_clients_never_meet() -> Result<()> {
    let store = MemoryStore::new();
    let history = Arc::new(History::default());
    let mut clients = JoinSet::new();
    for _ in 0..PROCESSES {
        let client = client(&store, Duration::from_secs(30)).await?;
        let history = Arc::clone(&history);
        let report = move |belief: Belief| history.record(belief);
        clients
            .spawn(async move { read_and_write(&client, "name", TASKS, duration(), report).await });
    }
    while let Some(done) = clients.join_next().await {
        done??;
    }
    let grants = history.check()?;
    println!("{grants} grants");
    ensure!(grants > 100, "{grants} grants");
    Ok(())
}

#[tokio::test]
async fn readers_and_writers_of_many_processes_never_meet() -> Result<()> {
    let server = Server::start().await?;
    let seconds = duration().as_secs().to_string();
    let mut processes = JoinSet::new();
    for _ in 0..PROCESSES {
        let tasks = TASKS.to_string();
        let words = ["share", &server.url(), "name", &tasks, &seconds];
        let mut holder = Holder::start(&words)?;
        // All at once: whoever cannot say what it believed would go on holding.
        processes.spawn(async move { holder.rest().await });
    }
    let history = History::default();
    while let Some(lines) = processes.join_next().await {
        for line in lines?? {
            history.record(line.parse()?);
        }
    }
    let grants = history.check()?;
    println!("{grants} grants");
    ensure!(grants > 100, "{grants} grants");
    Ok(())
}
