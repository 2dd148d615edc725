//! A button that is pressed twice: one lock for each order keeps the second request out while the first one charges the card. Other
//! orders do not notice.
//!
//! Read this when the same request may come twice at the same time. The lock does not make the charge happen once: the note in the
//! database does, and the lock lets only one request at a time read and write it. `cargo example order_entry` needs no
//! server; add `-- --url redis://127.0.0.1:6379` for one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use lockkeeper::{Client, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::time::{sleep, timeout};

/// The shop's database: how often each order was charged.
#[derive(Clone, Default)]
struct Orders(Arc<StdMutex<BTreeMap<u32, u32>>>);

impl Orders {
    fn charges(&self, order: u32) -> u32 {
        self.with(|orders| orders.get(&order).copied().unwrap_or_default())
    }

    fn with<T>(&self, f: impl FnOnce(&mut BTreeMap<u32, u32>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("order_entry").await?;
    let (orders, story) = (Orders::default(), Story::new());
    let pay = |order| pay(place.client.clone(), orders.clone(), order);

    story.chapter("The button of order 1001 is pressed twice, that of 1002 once");
    let both = async { tokio::join!(pay(1001), pay(1001), pay(1002)) };
    let (first, second, other) = timeout(Duration::from_secs(60), both).await?;
    let (first, second, other) = (first?, second?, other?);
    story.tell("1001", format!("answers {first}"));
    story.tell("1001", format!("answers {second}"));
    story.tell("1002", format!("answers {other}"));
    ensure!([first, second].contains(&PAID) && [first, second].contains(&BUSY));
    ensure!(other == PAID, "one order held up another");

    story.chapter("It is pressed once more, when all is done");
    let third = pay(1001).await?;
    story.tell("1001", format!("answers {third}"));
    ensure!(third == DONE_BEFORE);
    ensure!(orders.charges(1001) == 1, "the card was charged twice");
    ensure!(orders.charges(1002) == 1);
    story.tell("bank", "each card was charged once");
    place.close().await
}

const PAID: &str = "200 paid";
const BUSY: &str = "409 this order is being processed";
const DONE_BEFORE: &str = "200 was paid before";

async fn pay(client: Client, orders: Orders, order: u32) -> anyhow::Result<&'static str> {
    let lock = Mutex::new(&client, &format!("order:{order}"));
    let Some(guard) = lock.try_acquire().await? else {
        return Ok(BUSY);
    };
    let answer = guard.run(charge_once(&orders, order)).await?;
    guard.release().await?;
    Ok(answer)
}

/// Reads, waits, and writes: two at once would both see an order that was not charged.
async fn charge_once(orders: &Orders, order: u32) -> &'static str {
    let before = orders.charges(order);
    if before > 0 {
        return DONE_BEFORE;
    }
    sleep(Duration::from_millis(100)).await;
    orders.with(|orders| orders.insert(order, before + 1));
    PAID
}
