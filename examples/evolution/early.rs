//! The first three generations: a key that exists or not.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::stage::{LEASE, LOCK, OVER, Stage, taken};

/// `SETNX key value` is `SET key value NX`.
pub(crate) async fn setnx(stage: &mut Stage) -> Result<()> {
    let ann = taken(stage.send("ann", &["SET", LOCK, "ann", "NX"]).await?);
    let bob = taken(stage.send("bob", &["SET", LOCK, "bob", "NX"]).await?);
    stage.repaired("one of two gets it", ann && !bob)?;

    stage.tell("ann", "dies");
    stage.pass_an_hour().await;
    let bob = taken(stage.send("bob", &["SET", LOCK, "bob", "NX"]).await?);
    let left = stage.send("", &["PTTL", LOCK]).await?;
    let for_ever = left.as_deref() == Some("-1");
    stage.broken(
        "the holder died, and the lock is held for ever",
        !bob && for_ever,
    )
}

pub(crate) async fn setnx_then_expire(stage: &mut Stage) -> Result<()> {
    let lease = LEASE.as_millis().to_string();
    stage.send("ann", &["SET", LOCK, "ann", "NX"]).await?;
    stage.send("ann", &["PEXPIRE", LOCK, &lease]).await?;
    stage.tell("ann", "dies");
    stage.pass(OVER).await;
    let bob = taken(stage.send("bob", &["SET", LOCK, "bob", "NX"]).await?);
    stage.repaired("a dead holder's lock becomes free", bob)?;

    stage.tell("bob", "dies, between the two commands");
    stage.pass_an_hour().await;
    let carl = taken(stage.send("carl", &["SET", LOCK, "carl", "NX"]).await?);
    stage.broken("two commands are not one: held for ever again", !carl)
}

/// `GETSET`, which the embedded engine does not have.
const GETSET: &str = "
    local old = redis.call('GET', KEYS[1])
    redis.call('SET', KEYS[1], ARGV[1])
    return old";

/// What the documentation of `SETNX` proposed for years: the value is the time at which the lock ends, by the writer's own clock. A
/// client that finds the time over replaces the value, and has the lock if the replaced value was still the old one.
async fn take(stage: &Stage, who: &str, ahead: Duration) -> Result<bool> {
    let now = stage.clock(ahead);
    let end = (now + LEASE.as_millis()).to_string();
    if taken(stage.send(who, &["SET", LOCK, &end, "NX"]).await?) {
        return Ok(true);
    }
    let seen = stage.send(who, &["GET", LOCK]).await?.context("gone")?;
    if seen.parse::<u128>()? >= now {
        return Ok(false);
    }
    let replaced = stage
        .script(who, "GETSET example:lock", GETSET, &[&end])
        .await?;
    Ok(replaced.as_deref() == Some(&*seen))
}

pub(crate) async fn time_as_value(stage: &mut Stage) -> Result<()> {
    let on_time = Duration::ZERO;
    take(stage, "ann", on_time).await?;
    stage.tell("ann", "dies, no matter where");
    stage.pass(OVER).await;
    let bob = take(stage, "bob", on_time).await?;
    stage.repaired("no second command is needed to end a lock", bob)?;

    stage.tell("carl", "has a clock that is a minute ahead");
    let carl = take(stage, "carl", Duration::from_secs(60)).await?;
    stage.broken("bob and carl are both inside: the clocks differ", carl)?;

    stage.free().await?;
    take(stage, "ann", on_time).await?;
    stage.pass(OVER).await;
    let old = stage.send("bob", &["GET", LOCK]).await?.context("gone")?;
    let end_of = |who: u128| (stage.clock(on_time) + LEASE.as_millis() + who).to_string();
    let (of_bob, of_carl) = (end_of(0), end_of(20));
    stage.tell("", "both see that ann's time is over, and both replace it");
    let bob = stage
        .script("bob", "GETSET example:lock", GETSET, &[&of_bob])
        .await?;
    let carl = stage
        .script("carl", "GETSET example:lock", GETSET, &[&of_carl])
        .await?;
    let bob_alone = bob.as_ref() == Some(&old) && carl.as_ref() != Some(&old);
    let written = stage.send("", &["GET", LOCK]).await?;
    stage.broken(
        "carl did not get it, and yet bob's lock now ends when carl says",
        bob_alone && written.as_deref() == Some(&*of_carl),
    )?;

    stage.pass(OVER).await;
    let dora = take(stage, "dora", on_time).await?;
    stage.tell("bob", "is done at last, and deletes what he takes for his");
    stage.send("bob", &["DEL", LOCK]).await?;
    let emil = take(stage, "emil", on_time).await?;
    stage.broken(
        "bob has deleted dora's lock: dora and emil are inside",
        dora && emil,
    )
}
