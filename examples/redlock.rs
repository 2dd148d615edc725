//! A job that must not run twice, guarded by five servers, two of which are down: it runs all the same. With three of them down it
//! does not run, and the error says which servers are missing.
//!
//! Read this when no single server may be a point of failure and you have no consensus store. `cargo example redlock` needs
//! no server; with five times `--url redis://HOST:PORT` the same job runs on those, and you can stop some of them yourself.

use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use lockkeeper::{Client, Error, Redlock};

/// A job guarded by several servers.
#[derive(Parser)]
struct Arguments {
    /// One of the servers, an odd number of times; without any, five engines inside this program, two of which are down.
    #[arg(long)]
    url: Vec<String>,
}

/// An address where no server listens.
const DOWN: &str = "redis://127.0.0.1:1";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { url } = Arguments::parse();
    if !url.is_empty() {
        return nightly_job(&connect(&url).await?).await;
    }
    println!("Five servers, two of them down");
    let urls = ["memory://", DOWN, "memory://", DOWN, "memory://"];
    nightly_job(&connect(&urls).await?).await?;

    println!("\nFive servers, three of them down");
    let urls = ["memory://", DOWN, "memory://", DOWN, DOWN];
    let lock = Redlock::new(&connect(&urls).await?, "nightly-report")?;
    match lock.try_acquire().await {
        Err(error @ Error::Backend { .. }) => println!("  nobody runs it: {error}"),
        other => anyhow::bail!("it should have been refused, not {other:?}"),
    }
    Ok(())
}

/// Makes a client for each server, even for those that are down now: they take part when they are back.
async fn connect<S: AsRef<str>>(urls: &[S]) -> anyhow::Result<Vec<Client>> {
    let mut clients = Vec::new();
    for url in urls {
        let settings = Client::builder().namespace("redlock");
        let client = lockkeeper::connect_later(url.as_ref(), settings);
        clients.push(client.await.context("failed to make a client")?);
    }
    Ok(clients)
}

async fn nightly_job(clients: &[Client]) -> anyhow::Result<()> {
    let lock = Redlock::new(clients, "nightly-report")?;
    let wait = Duration::from_secs(60);
    let guard = lock.acquire().wait_for(wait).await?;
    let (servers, all) = (guard.valid_parts(), clients.len());
    println!("  held by {servers} of {all} servers");
    // Another machine that tries meanwhile does not get it.
    anyhow::ensure!(lock.try_acquire().await?.is_none());
    // Stops if the lease is lost. The archive refuses a token that is smaller than one it has seen.
    let token = guard.fencing_token().get();
    guard.run(write_report(token)).await?;
    guard.release().await?;
    println!("  released");
    Ok(())
}

async fn write_report(token: u64) {
    println!("  writing the report under token {token}");
    tokio::time::sleep(Duration::from_millis(50)).await;
}
