//! Ten in stock, and two orders at the same moment, of five and of eight. Without a lock both are accepted and the stock goes below
//! zero; with a lock one is refused.
//!
//! Read this to see what a lock is for. The stock is in Redis and is reduced by an atomic command, which does not help: what was
//! read before it is out of date by then. `cargo example oversell` needs no server; add `-- --url redis://127.0.0.1:6379` for
//! one.

use anyhow::ensure;
use lockkeeper::Mutex;
use lockkeeper_examples::{Place, Redis, Story};
use tokio::sync::Barrier;

const STOCK: &str = "example:oversell:stock";

/// `DECRBY`, which the embedded engine does not have.
const TAKE: &str = "redis.call('SET', KEYS[1], redis.call('GET', KEYS[1]) - ARGV[1])";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("oversell").await?;
    let story = Story::new();

    story.chapter("Ten in stock, orders of five and of eight, and no lock");
    let stock = fill(&place.redis).await?;
    story.tell("stock", format!("{stock}"));
    // Both read before either takes. In production this happens once in a thousand times, on the busiest day.
    let looked = Barrier::new(2);
    let order = async |who: &str, number: i64| {
        let seen = place.redis.number(&["GET", STOCK]).await?;
        looked.wait().await;
        if seen < number {
            return anyhow::Ok(false);
        }
        take(&place.redis, number).await?;
        story.tell(who, format!("saw {seen}, and has bought {number}"));
        Ok(true)
    };
    let (ann, bob) = tokio::try_join!(order("ann", 5), order("bob", 8))?;
    let left = place.redis.number(&["GET", STOCK]).await?;
    story.tell("stock", format!("{left}: sold 13 of 10"));
    ensure!(ann && bob && left == -3, "this was to fail: {left} left");

    story.chapter("The same under a lock");
    let stock = fill(&place.redis).await?;
    story.tell("stock", format!("{stock}"));
    let lock = Mutex::new(&place.client, "stock");
    let order = async |who: &str, number: i64| {
        let guard = lock.acquire().await?;
        let seen = place.redis.number(&["GET", STOCK]).await?;
        let enough = seen >= number;
        if enough {
            take(&place.redis, number).await?;
            story.tell(who, format!("saw {seen}, and has bought {number}"));
        } else {
            story.tell(who, format!("saw {seen}, and is refused"));
        }
        guard.release().await?;
        anyhow::Ok(enough)
    };
    let (ann, bob) = tokio::try_join!(order("ann", 5), order("bob", 8))?;
    let left = place.redis.number(&["GET", STOCK]).await?;
    story.tell("stock", format!("{left}"));
    ensure!(ann != bob, "one of the two was to be refused");
    ensure!(left == if ann { 5 } else { 2 }, "{left} left");
    place.redis.command(&["DEL", STOCK]).await?;
    place.close().await
}

async fn fill(redis: &Redis) -> anyhow::Result<i64> {
    redis.command(&["SET", STOCK, "10"]).await?;
    redis.number(&["GET", STOCK]).await
}

async fn take(redis: &Redis, number: i64) -> anyhow::Result<()> {
    redis.script(TAKE, STOCK, &[&number.to_string()]).await?;
    Ok(())
}
