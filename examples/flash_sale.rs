//! Many buyers, few items, one each: once with a lock, once as a single atomic script. Neither way sells an item twice. The figures
//! show what a lock costs where a script would do.
//!
//! **When to prefer which.** If everything that must happen together is in Redis and is a few commands, write the script: one round
//! trip for each buyer, and no lease that could end. If anything else is part of it, such as a payment, a database or a file, no
//! script reaches it: take the lock, and hold it only for that. `cargo example flash_sale --release` needs no server; add
//! `-- --url redis://127.0.0.1:6379` for one.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use lockkeeper::FairLock;
use lockkeeper_examples::{Place, Redis, Story};
use tokio::task::JoinSet;

const BUYERS: u32 = 200;
const ITEMS: i64 = 50;

const STOCK: &str = "example:{flash_sale}:stock";
const BOUGHT: &str = "example:{flash_sale}:bought";

/// All in one step: has this buyer bought, is there anything left, sold.
const BUY: &str = "
    if redis.call('HGET', ARGV[1], ARGV[2]) then return 'again' end
    local stock = tonumber(redis.call('GET', KEYS[1]))
    if stock == 0 then return 'sold out' end
    redis.call('SET', KEYS[1], stock - 1)
    redis.call('HSET', ARGV[1], ARGV[2], '1')
    return 'sold'";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Arc::new(Place::open("flash_sale").await?);
    let story = Story::new();
    story.chapter("Two hundred buyers, fifty items, and everybody asks twice");
    let by_lock = sale(&place, story, "lock", |place, buyer| async move {
        let lock = FairLock::new(&place.client, "sale");
        let guard = lock.acquire().await?;
        let sold = buy_step_by_step(&place.redis, &buyer).await?;
        guard.release().await?;
        Ok(sold)
    });
    let by_lock = by_lock.await?;
    let by_script = sale(&place, story, "script", |place, buyer| async move {
        let answer = place.redis.script(BUY, STOCK, &[BOUGHT, &buyer]).await?;
        Ok(answer.as_deref() == Some("sold"))
    });
    let by_script = by_script.await?;
    story.tell(
        "both",
        format!("sold {ITEMS} of {ITEMS}, no buyer has two items"),
    );
    story.tell(
        "script",
        format!("is {:.1} times as fast", by_script / by_lock),
    );
    place.redis.command(&["DEL", STOCK, BOUGHT]).await?;
    place.client.close().await;
    Ok(())
}

/// Reads and then writes, with four commands: safe only under a lock.
async fn buy_step_by_step(redis: &Redis, buyer: &str) -> anyhow::Result<bool> {
    if redis.command(&["HGET", BOUGHT, buyer]).await?.is_some() {
        return Ok(false);
    }
    let stock = redis.number(&["GET", STOCK]).await?;
    if stock == 0 {
        return Ok(false);
    }
    let left = (stock - 1).to_string();
    redis.command(&["SET", STOCK, &left]).await?;
    redis.command(&["HSET", BOUGHT, buyer, "1"]).await?;
    Ok(true)
}

/// Runs the sale for all buyers, checks what was sold, and returns how many were served per second.
async fn sale<F, W>(place: &Arc<Place>, story: Story, way: &str, buy: F) -> anyhow::Result<f64>
where
    F: Fn(Arc<Place>, String) -> W,
    W: Future<Output = anyhow::Result<bool>> + Send + 'static,
{
    place.redis.command(&["DEL", BOUGHT]).await?;
    let stock = ITEMS.to_string();
    place.redis.command(&["SET", STOCK, &stock]).await?;
    let begun = Instant::now();
    let mut crowd = JoinSet::new();
    for number in 0..2 * BUYERS {
        let (number, buyer) = (number % BUYERS, format!("buyer {}", number % BUYERS));
        let bought = buy(Arc::clone(place), buyer);
        crowd.spawn(async move { bought.await.map(|sold| (number, sold)) });
    }
    let mut winners = Vec::new();
    while let Some(outcome) = crowd.join_next().await {
        let (buyer, sold) = outcome??;
        winners.extend(sold.then_some(buyer));
    }
    let rate = f64::from(2 * BUYERS) / begun.elapsed().as_secs_f64();
    ensure!(i64::try_from(winners.len())? == ITEMS, "sold too many");
    winners.sort_unstable();
    winners.dedup();
    ensure!(i64::try_from(winners.len())? == ITEMS, "somebody has two");
    ensure!(place.redis.number(&["GET", STOCK]).await? == 0);
    story.tell(way, format!("serves {rate:>7.0} requests a second"));
    Ok(rate)
}
