//! The fourth and the fifth generation: the lock that most libraries have today.

use std::time::Duration;

use anyhow::Result;

use super::stage::{LEASE, LOCK, OVER, Stage, taken};

/// Since Redis 2.6.12, of 2013.
pub(crate) async fn take(stage: &Stage, who: &str, value: &str) -> Result<bool> {
    let lease = LEASE.as_millis().to_string();
    let set = ["SET", LOCK, value, "NX", "PX", &lease];
    Ok(taken(stage.send(who, &set).await?))
}

pub(crate) async fn plain_delete(stage: &mut Stage) -> Result<()> {
    take(stage, "ann", "ann").await?;
    stage.tell("ann", "dies, no matter where");
    stage.pass(OVER).await;
    let bob = take(stage, "bob", "bob").await?;
    stage.repaired("there is no place to die, and no client's clock in it", bob)?;

    stage.tell("bob", "takes longer than he thought");
    stage.pass(OVER).await;
    let carl = take(stage, "carl", "carl").await?;
    stage.send("bob", &["DEL", LOCK]).await?;
    let dora = take(stage, "dora", "dora").await?;
    stage.broken(
        "bob has deleted carl's lock: carl and dora are inside",
        carl && dora,
    )
}

/// The script that every book shows.
pub(crate) const DELETE: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        return redis.call('DEL', KEYS[1])
    end
    return 0";

pub(crate) async fn compare_and_delete(stage: &mut Stage) -> Result<()> {
    take(stage, "ann", "f3a9").await?;
    stage.pass(OVER).await;
    let bob = take(stage, "bob", "77c0").await?;
    let deleted = stage
        .script("ann", "compare-and-delete", DELETE, &["f3a9"])
        .await?;
    let carl = take(stage, "carl", "b512").await?;
    let kept = bob && !carl && deleted.as_deref() == Some("0");
    stage.repaired("nobody deletes another's lock", kept)?;

    stage.tell("bob", "takes longer than he thought; nothing tells him");
    stage.pass(OVER).await;
    let carl = take(stage, "carl", "b512").await?;
    stage.broken("bob and carl are both inside: the lease ended", carl)?;

    stage.tell("carl", "has a fresh lease");
    stage.fail_over(LOCK).await?;
    let dora = take(stage, "dora", "08de").await?;
    stage.broken("carl and dora are both inside: the server is lost", dora)?;

    stage.tell("emil", "waits by asking, and asking, and asking");
    let mut asked = 0;
    let lease = LEASE.as_millis().to_string();
    let set = ["SET", LOCK, "e001", "NX", "PX", lease.as_str()];
    while stage.place.redis.command(&set).await?.is_none() {
        asked += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stage.broken(
        &format!("one waiter has asked {asked} times for one lock"),
        asked > 10,
    )
}
