//! Orders whose locks are spread over the slots of a cluster, and two locks that a hash tag keeps together. The program is the same
//! on one server: only the URL differs.
//!
//! Read this when one server is too small, or must not be a single point of failure. `cargo example cluster` needs no server,
//! and then has one group of keys; add `-- --url redis-cluster://127.0.0.1:7001` for a cluster, with any of its nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use lockkeeper::{Client, MultiLock, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::task::JoinSet;
use tokio::time::sleep;

const ORDERS: u32 = 6;

/// How long a waiter may have to wait: the cluster may be electing a new primary.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("cluster").await?;
    let story = Story::new();
    spread(&place, story).await?;
    together(&place.client, story).await?;
    apart(&place.client, story).await?;
    place.close().await
}

/// Each order has its own lock, and each lock a slot.
async fn spread(place: &Place, story: Story) -> anyhow::Result<()> {
    story.chapter("Two machines work on six orders, each order under its own lock");
    let mut slots = BTreeSet::new();
    let mut work = JoinSet::new();
    let machines = [place.client.clone(), place.another().await?];
    for order in 0..ORDERS {
        let name = format!("order:{order}");
        let slot = Mutex::new(&place.client, &name).target().group()?;
        slots.insert(slot);
        story.tell(&name, format!("has its lock in slot {slot}"));
        let busy = Arc::new(AtomicBool::new(false));
        for machine in &machines {
            let (lock, busy) = (Mutex::new(machine, &name), Arc::clone(&busy));
            work.spawn(async move {
                let guard = lock.acquire().wait_for(PATIENCE).await?;
                ensure!(!busy.swap(true, Ordering::SeqCst), "two work on one order");
                sleep(Duration::from_millis(20)).await;
                busy.store(false, Ordering::SeqCst);
                guard.release().await?;
                Ok(())
            });
        }
    }
    while let Some(done) = work.join_next().await {
        done??;
    }
    let [_, other] = machines;
    other.close().await;
    let slots = match slots.len() {
        1 => "all in one slot: this is one server".to_owned(),
        several => format!("over {several} slots"),
    };
    story.tell("both", format!("have seen every order, {slots}"));
    Ok(())
}

/// The text in braces decides the slot: one script takes both of these, in one round trip.
async fn together(client: &Client, story: Story) -> anyhow::Result<()> {
    story.chapter("The stock and the money of one basket, kept together by a hash tag");
    let members =
        ["{basket:7}:stock", "{basket:7}:money"].map(|name| Mutex::new(client, name).target());
    ensure!(members[0].group()? == members[1].group()?, "they are apart");
    let slot = members[0].group()?;
    let both = MultiLock::new(members)?
        .acquire()
        .wait_for(PATIENCE)
        .await?;
    story.tell("basket:7", format!("is held whole, in slot {slot}"));
    both.release().await?;
    Ok(())
}

/// Names in different slots are taken one after the other, in the same order by every client.
async fn apart(client: &Client, story: Story) -> anyhow::Result<()> {
    story.chapter("Two accounts in whichever slots they are");
    let transfer = async |from: &str, to: &str| -> anyhow::Result<()> {
        let members = [from, to].map(|name| Mutex::new(client, name).target());
        let guard = MultiLock::new(members)?
            .acquire()
            .wait_for(PATIENCE)
            .await?;
        story.tell(from, format!("pays {to}"));
        sleep(Duration::from_millis(10)).await;
        guard.release().await?;
        Ok(())
    };
    let (there, back) = tokio::join!(
        transfer("account:1", "account:2"),
        transfer("account:2", "account:1")
    );
    there?;
    back?;
    story.tell("both", "are done: nobody waited for the other in a circle");
    Ok(())
}
