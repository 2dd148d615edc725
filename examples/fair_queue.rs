//! First come, first served: workers queue for one printer and print in the order in which they asked. One of them walks away, and
//! nobody waits for it.
//!
//! Read this when the order matters. Chance decides between the waiters of a `Mutex`; a `FairLock` keeps a queue on the server, for
//! all processes. `cargo example fair_queue` needs no server; `-- --url redis://127.0.0.1:6379` runs the same program on one.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Parser as _;
use lockkeeper::{Client, Error, FairLock, Owner};
use lockkeeper_examples::{Arguments, Story};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const WORKERS: [&str; 5] = ["ann", "bob", "carl", "dora", "emil"];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { url } = Arguments::parse();
    // A separate namespace keeps the program away from everything else on a shared server.
    let settings = Client::builder().namespace("fair_queue");
    let client = lockkeeper::connect_with(&url, settings)
        .await
        .context("failed to connect")?;
    let printer = FairLock::new(&client, "printer");
    let story = Story::new();
    let (tray, mut printed) = mpsc::unbounded_channel();

    println!("Five workers line up while the printer is busy");
    let busy = printer.acquire().await?;
    let mut queue = Vec::new();
    for name in WORKERS {
        // Its own owner identifies each worker while it waits.
        let owner = client.new_owner();
        let job = print_ticket(printer.clone(), owner, name, tray.clone(), story);
        queue.push((name, owner, tokio::spawn(job)));
        let place = place_of(&printer, &owner).await?;
        story.tell(name, format!("asks, and has place {place}"));
    }
    drop(tray);

    println!("\nOne walks away, and one finds the queue too long");
    let (name, _, job) = queue.remove(2);
    walk_away(&printer, job).await?;
    story.tell(
        name,
        "is called to a meeting: dropping the wait leaves the queue",
    );
    for (name, owner, _) in &queue {
        let place = place_of(&printer, owner).await?;
        story.tell(name, format!("has place {place}"));
    }
    match printer.acquire().max_queue(4).await {
        Err(error @ Error::QueueFull { .. }) => story.tell("fritz", error.to_string()),
        other => bail!("fritz should have been turned away, not {other:?}"),
    }

    println!("\nThe printer is free, and each hands it to the next");
    busy.release().await?;
    let mut order = Vec::new();
    while let Some(name) = printed.recv().await {
        order.push(name);
    }
    for (_, _, job) in queue {
        job.await??;
    }
    ensure!(
        order == ["ann", "bob", "dora", "emil"],
        "the tickets are out of order: {order:?}"
    );
    story.tell("tray", format!("holds the tickets of {}", order.join(", ")));
    ensure!(printer.queue_len().await? == 0);
    let report = client.close().await;
    ensure!(
        report.expiring == 0 && report.unconfirmed == 0,
        "something was left behind: {report:?}"
    );
    Ok(())
}

/// Waits for its turn, prints for a moment, and lets the next one in.
async fn print_ticket(
    printer: FairLock,
    owner: Owner,
    name: &'static str,
    tray: mpsc::UnboundedSender<&'static str>,
    story: Story,
) -> anyhow::Result<()> {
    let guard = printer
        .acquire()
        .owner(&owner)
        .wait_for(Duration::from_secs(60))
        .await?;
    story.tell(name, format!("prints ticket {}", guard.fencing_token()));
    sleep(Duration::from_millis(100)).await;
    tray.send(name)?;
    guard.release().await?;
    Ok(())
}

/// The place in the queue of a worker that has just asked: it takes a moment until the server knows.
async fn place_of(printer: &FairLock, owner: &Owner) -> anyhow::Result<u64> {
    let place = async {
        loop {
            if let Some(place) = printer.position(owner).await? {
                return Ok(place);
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(60), place)
        .await
        .context("nobody joined the queue")?
}

/// Drops the wait of a worker. The withdrawal runs in the background, which takes a moment too.
async fn walk_away(printer: &FairLock, job: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    let before = printer.queue_len().await?;
    job.abort();
    let shorter = async {
        while printer.queue_len().await? >= before {
            sleep(Duration::from_millis(1)).await;
        }
        anyhow::Ok(())
    };
    timeout(Duration::from_secs(60), shorter)
        .await
        .context("nobody left the queue")?
}
