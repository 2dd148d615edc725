//! An old holder wakes up, and its write is refused: the data that the lock protects has seen a larger fencing token.
//!
//! Read this when a second writer would cost money. No lock that expires can keep a paused process from writing late; a storage
//! that compares two numbers can. Here it is Redis and a script of three lines; `sql_fencing` does the same in SQL.
//! `cargo example fenced_writes` needs no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::time::Duration;

use anyhow::ensure;
use lockkeeper::{FencingToken, Mutex};
use lockkeeper_examples::{Place, Redis, Story};
use tokio::time::sleep;

const LEDGER: &str = "example:fenced_writes:ledger";

/// Writes unless a later holder has written. The token and the data that it guards change in one step.
const WRITE: &str = "
    local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
    if tonumber(ARGV[1]) < seen then return 'refused' end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'entry', ARGV[2])
    return 'written'";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("fenced_writes").await?;
    let story = Story::new();
    place.redis.command(&["DEL", LEDGER]).await?;
    let lock = Mutex::new(&place.client, "ledger");

    story.chapter("Ann holds, and falls asleep right before she writes");
    let ttl = Duration::from_secs(2);
    let ann = lock.acquire().ttl(ttl).no_renewal().await?;
    let old = ann.fencing_token();
    ann.ensure_held()?;
    story.tell("ann", format!("checks: she holds, with token {old}"));
    // A garbage collection, a swapped-out page, a moved virtual machine: the program has no say.
    sleep(ttl).await;

    story.chapter("Her lease has ended, and Bob writes");
    let bob = lock.acquire().wait_for(Duration::from_secs(60)).await?;
    let new = bob.fencing_token();
    let answer = write(&place.redis, new, "bob was here").await?;
    story.tell("bob", format!("writes with token {new}: {answer}"));
    ensure!(new > old && answer == "written");

    story.chapter("Ann wakes up and goes on where she was");
    let answer = write(&place.redis, old, "ann was here").await?;
    story.tell("ann", format!("writes with token {old}: {answer}"));
    ensure!(answer == "refused", "a late write was taken");
    let state = ann.state();
    story.tell("ann", format!("looks at her lease: {state:?}"));

    let entry = place.redis.command(&["HGET", LEDGER, "entry"]).await?;
    story.tell("ledger", format!("says {:?}", entry.as_deref()));
    ensure!(entry.as_deref() == Some("bob was here"));
    bob.release().await?;
    drop(ann);
    place.redis.command(&["DEL", LEDGER]).await?;
    place.close().await
}

async fn write(redis: &Redis, token: FencingToken, entry: &str) -> anyhow::Result<String> {
    let token = token.to_string();
    let answer = redis.script(WRITE, LEDGER, &[&token, entry]).await?;
    Ok(answer.unwrap_or_default())
}
